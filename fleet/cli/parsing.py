"""The parser behind the commands: grouped help, booleans with a value, and errors of usage in the style of all others.

Kubernetes users write `--dry-run=false`; flags take that too.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

ASK: Final = "Ask"
TRY: Final = "Try"
CHANGE: Final = "Change"
RUN: Final = "Run"
MORE: Final = "More"
_SECTIONS: Final = (ASK, TRY, CHANGE, RUN, MORE)
_TRUTH: Final = {"true": True, "false": False}
_WIDEST: Final = 100
_USAGE: Final = 2
_HABITS: Final = {
    "describe": "why PLACEMENT",
    "explain": "why PLACEMENT",
    "events": "decisions",
    "list": "get placements",
    "logs": "decisions --follow",
    "taint": "cordon CLUSTER",
    "top": "status",
}
"""Verbs of kubectl, and the commands that answer the same question here."""
_EXTRA: Final = re.compile(r"Got unexpected extra argument\(?s?\)? \((.+)\)")
_NOTES: Final = (
    (re.compile(r"  \[default: ([^\];]+)(?:; [^\]]*)?\]"), r" (default: \1)"),
    (re.compile(r"  \[x>=(\d+)\]"), r" (at least \1)"),
    (re.compile(r"  \[(\d+)<=x<=(\d+)\]"), r" (\1 to \2)"),
    (re.compile(r"  \[required\]"), " (required)"),
)
CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST}


class Command(TyperCommand):
    """A command whose flags take `=true` and `=false`. Its `epilog` holds examples, one per line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _resolve_booleans(self.get_params(ctx), args, ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[options] CLUSTER [PLACEMENT]`"""
        return ["[options]", *map(_describe_argument, _list_arguments(self.get_params(ctx)))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        parameters = self.get_params(ctx)
        arguments = [(_get_metavar(argument), argument.help) for argument in _list_arguments(parameters)]
        options = (option.get_help_record(ctx) for option in parameters if option.param_type_name == "option")
        sections = (("Arguments", arguments), ("Options", [record for record in options if record]))
        for name, records in sections:
            if records:
                with formatter.section(name):
                    formatter.write_dl([(_tidy(left), _tidy_help(help or "")) for left, help in records])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(self.epilog, ctx, formatter)


class CommandGroup(TyperGroup):
    """Lists its commands by what they are for. Without a command it prints its help, which is no error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        habit = None if args[0] in self.commands else _HABITS.get(args[0])
        if habit is not None and ctx.parent is None:
            ctx.fail(f"there is no command {args[0]}\nnext: try `{ctx.command_path} {habit}`")
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        del ctx
        return ["COMMAND [options]"]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name in self.list_commands(ctx):
            command: Any = self.commands[name]
            if not command.hidden:
                section = command.rich_help_panel
                sections[section if isinstance(section, str) else MORE].append((name, _summarize(command)))
        for title in [title for title in _SECTIONS if title in sections]:
            with formatter.section("Commands" if ctx.parent else title):
                formatter.write_dl(sections[title])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(self.epilog, ctx, formatter)

    def main(self, *args: Any, **options: Any) -> Any:
        """Exits as a program. Errors of usage are one line and the next step, like all errors. A BrokenPipeError is
        left to the caller, where the library would exit with 1."""
        options["standalone_mode"] = False
        try:
            code = super().main(*args, **options)
        except typer.TyperException as error:
            sys.stderr.write(_render_usage_error(error))
            code = error.exit_code
        except typer.Abort:
            sys.stderr.write("error: interrupted\n")
            code = 1
        except SystemExit as ended:
            if isinstance(ended.__context__, BrokenPipeError):
                raise ended.__context__ from None
            raise
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)


class CommandLine(typer.Typer):
    """Typer with these commands and groups."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            cls=CommandGroup,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings=CONTEXT,
            **options,
        )

    def add(
        self, section: str, *, name: str | None = None, examples: str = "", hidden: bool = False
    ) -> Callable[..., Any]:
        """Adds a command to a section of the help."""
        return self.command(
            name,
            cls=Command,
            rich_help_panel=section,
            epilog=examples or None,
            hidden=hidden,
            context_settings=CONTEXT,
        )


# --- flags ------------------------------------------------------------------------------------------------------------


def _resolve_booleans(parameters: Iterable[Any], args: list[str], ctx: Any) -> list[str]:
    """`--impact=true` is `--impact`, and `--impact=false` takes an earlier `--impact` back."""
    flags = {name: option for option in parameters if getattr(option, "is_bool_flag", False) for name in option.opts}
    resolved: list[str] = []
    for position, argument in enumerate(args):
        if argument == "--":
            return resolved + args[position:]
        name, equals, value = argument.partition("=")
        if not equals or name not in flags:
            resolved.append(argument)
            continue
        if value.lower() not in _TRUTH:
            raise typer.BadParameter(f"should be true or false, not {value!r}", ctx, param_hint=name)
        if _TRUTH[value.lower()]:
            resolved.append(name)
        else:
            resolved = [earlier for earlier in resolved if earlier not in flags[name].opts]
            resolved += flags[name].secondary_opts[:1]
    return resolved


# --- help -------------------------------------------------------------------------------------------------------------


def _list_arguments(parameters: Iterable[Any]) -> list[Any]:
    return [parameter for parameter in parameters if parameter.param_type_name == "argument" and not parameter.hidden]


def _get_metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper()).strip("[]")


def _describe_argument(argument: Any) -> str:
    name = _get_metavar(argument) + (" …" if argument.nargs != 1 else "")
    return name if argument.required else f"[{name}]"


def _tidy(option: str) -> str:
    """`-o, --output text|json` instead of Typer's angle brackets."""
    return option.replace("<", "").replace(">", "")


def _tidy_help(text: str) -> str:
    """Limits and defaults in words: `[default: text; x>=1]` is how Typer writes them."""
    for pattern, words in _NOTES:
        text = pattern.sub(words, text)
    return text


def _summarize(command: Any) -> str:
    """The first sentence of its help."""
    text = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
    return text.partition(". ")[0].rstrip(".") + "."


def _write_examples(examples: str | None, ctx: Any, formatter: Any) -> None:
    """Examples begin with `fleet`, or with a pipe that ends in it. They are never wrapped: people copy them."""
    if not examples:
        return
    program = ctx.find_root().command_path
    with formatter.section("Examples"):
        for line in inspect.cleandoc(examples).splitlines():
            formatter.write(f"{'':>{formatter.current_indent}}{line.replace('fleet ', f'{program} ', 1)}\n")


# --- errors -----------------------------------------------------------------------------------------------------------


def _render_usage_error(error: Any) -> str:
    message = _describe_usage_error(error)
    if "\nnext:" not in message:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "fleet"
        message = f"{message}\nnext: see `{path} --help`"
    return f"error: {message}\n"


def _describe_usage_error(error: Any) -> str:
    """Names the parameter first. Kinds of errors differ by what they carry."""
    parameter, hint = getattr(error, "param", None), getattr(error, "param_hint", None)
    name = hint or (_name_parameter(parameter) if parameter is not None else "")
    text = _plain(str(error.message or ""))
    if type(error).__name__ == "MissingParameter":
        return f"{name} is missing"
    if name:
        return f"{name}: {text}"
    if possibilities := getattr(error, "possibilities", None):
        return f"there is no option {error.option_name}\nnext: did you mean {' or '.join(sorted(possibilities))}?"
    if option := getattr(error, "option_name", None):
        return f"there is no option {option}" if type(error).__name__ == "NoSuchOption" else text
    if extra := _EXTRA.fullmatch(text):
        return _describe_extra_arguments(extra[1], error)
    return text[:1].lower() + text[1:]


def _describe_extra_arguments(arguments: str, error: Any) -> str:
    takes_cluster = any("--cluster" in parameter.opts for parameter in error.ctx.command.params)
    step = f"\nnext: did you mean --cluster {arguments}?" if takes_cluster and " " not in arguments else ""
    return f"unexpected argument: {arguments}{step}"


def _plain(message: str) -> str:
    """Without the words of the library that converts values."""
    text = message.removeprefix("Value error, ").removesuffix(".").partition(", unable to parse")[0]
    return "should be " + text.removeprefix("Input should be ") if text.startswith("Input should be ") else text


def _name_parameter(parameter: Any) -> str:
    """`--output`, or `PLACEMENT`."""
    if parameter.param_type_name == "argument":
        return _get_metavar(parameter)
    return str(max(parameter.opts, key=len))
