"""ClusterProfile: member clusters in the API of the multi-cluster SIG, for tools that do not use Fleet's API."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import AnyJSON, Base64, Bool, Timestamp, ValidationRule, list_map
from fleet.model.kinds.meta import Conditions, Document, Model


class ClusterManager(Model):
    """Who looks after the cluster."""

    rules = (ValidationRule(text="clusterManager cannot be changed", cel="self == oldSelf"),)

    name: Annotated[str, Field(description="Name of the cluster manager.")]


class ClusterProfileSpec(Model):
    """Which cluster this is."""

    display_name: Annotated[str, Field(description="A name for people.")] = ""
    cluster_manager: Annotated[ClusterManager, Field(description="Who looks after the cluster.")]


class ClusterVersion(Model):
    """What the cluster runs."""

    kubernetes: Annotated[str, Field(description="Version of Kubernetes.")] = ""


class ClusterProperty(Model):
    """One observed property."""

    name: Annotated[str, Field(min_length=1, max_length=253, description="Name of the property.")]
    value: Annotated[str, Field(min_length=1, max_length=1024, description="Its value.")]
    last_observed_time: Annotated[Timestamp | None, Field(description="When it was observed.")] = None


class NamedExtension(Model):
    """Data for clients, by name."""

    name: Annotated[str, Field(description="Name of the extension.")]
    extension: Annotated[AnyJSON, Field(description="Anything.")]


class ClusterEndpoint(Model):
    """How to reach the API server, as in a kubeconfig."""

    server: Annotated[str, Field(description="URL of the API server.")]
    tls_server_name: Annotated[
        str, Field(alias="tls-server-name", description="Host name the certificate is checked for.")
    ] = ""
    insecure_skip_tls_verify: Annotated[
        Bool, Field(alias="insecure-skip-tls-verify", description="Whether the certificate is not checked.")
    ] = False
    certificate_authority: Annotated[
        str, Field(alias="certificate-authority", description="File with the certificate authority.")
    ] = ""
    certificate_authority_data: Annotated[
        Base64, Field(alias="certificate-authority-data", description="The certificate authority itself, as PEM.")
    ] = ""
    proxy_url: Annotated[str, Field(alias="proxy-url", description="URL of a proxy to go through.")] = ""
    disable_compression: Annotated[
        Bool, Field(alias="disable-compression", description="Whether answers are not to be compressed.")
    ] = False
    extensions: Annotated[
        tuple[NamedExtension, ...], Field(description="Further data for clients."), list_map("name")
    ] = ()


class AccessProvider(Model):
    """A way to get access to the cluster."""

    name: Annotated[str, Field(description="Name of the provider.")]
    cluster: Annotated[ClusterEndpoint | None, Field(description="How to reach the API server.")] = None


class ClusterProfileStatus(Model):
    """What is known about the cluster."""

    conditions: Annotated[Conditions, Field(description="ControlPlaneHealthy.")] = ()
    version: Annotated[ClusterVersion, Field(description="What the cluster runs.")] = ClusterVersion()
    properties: Annotated[tuple[ClusterProperty, ...], Field(description="Observed properties."), list_map("name")] = ()
    access_providers: Annotated[
        tuple[AccessProvider, ...], Field(description="Ways to get access."), list_map("name")
    ] = ()
    credential_providers: Annotated[
        tuple[AccessProvider, ...], Field(description="The older name of accessProviders."), list_map("name")
    ] = ()


class ClusterProfile(Document):
    """A cluster of the fleet, for tools outside of it."""

    spec: Annotated[ClusterProfileSpec, Field(description="Which cluster this is.")]
    status: Annotated[ClusterProfileStatus, Field(description="What is known about it.")] = ClusterProfileStatus()
