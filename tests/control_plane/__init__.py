"""A real etcd and kube-apiserver for tests.

Any test may ask for them by fixture:

    def test_something(control_plane: Access) -> None:           # shared by all tests and workers of a run
        ...

    def test_an_installation(cluster: Cluster) -> None:           # with controllers, a scheduler and pretended pods
        ...

The shared one is never reset: a test keeps to a namespace or to names of its own. What a test gets to know about it is
`access.Access`: URL, CA, tokens, kubeconfig, the folder with kubectl. RBAC is on; the user `admin` may do everything,
`alice` and `bob` nothing until a test binds a role to them. There is no controller manager, so nothing collects garbage
or empties a namespace that is being deleted; only a `cluster.Cluster` has one. A test that stops or kills servers has
an `instance.ControlPlane` of its own.

The servers listen on the loopback interface only, keep their data in a temporary folder, and end with the tests,
whatever ends those. `assets` builds the programs the first time, which takes some minutes.
"""
