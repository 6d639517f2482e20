"""`syncline completion`: scripts with which shells complete the command line.

A script asks `syncline` itself what may follow, by variables in the environment as typer reads them; the functions of
`complete.py` answer for arguments. Only the scripts are ours: typer's own would end the name of a folder with a blank.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from syncline.base.errors import command_line, did_you_mean, one_of
from syncline.commands import catalogue, listing
from syncline.commands.cli import complete
from syncline.commands.cli.complete import Offered
from syncline.results import entries as results

BASH: Final = """_syncline_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _SYNCLINE_COMPLETE=complete_bash "$1" ) )
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    fi
}
complete -o default -F _syncline_completion syncline
"""
ZSH: Final = """#compdef syncline
_syncline_completion() {
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _SYNCLINE_COMPLETE=complete_zsh syncline)
}
compdef _syncline_completion syncline
"""
FISH: Final = (
    "complete --command syncline --no-files --arguments "
    '"(env _SYNCLINE_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args '
    '_TYPER_COMPLETE_ARGS=(commandline -cp) syncline)" --condition '
    '"env _SYNCLINE_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args '
    '_TYPER_COMPLETE_ARGS=(commandline -cp) syncline"\n'
)
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
WHERE: Final = {
    "bash": "~/.local/share/bash-completion/completions/syncline",
    "zsh": "_syncline in a folder of $fpath",
    "fish": "~/.config/fish/completions/syncline.fish",
}
"""Where each shell looks for scripts."""


complete.SOURCES.update(
    {"schemas": lambda: catalogue.SCHEMAS} | {kind.name: kind.names for kind in listing.KINDS.values()}
)
complete.KINDS.extend((kind.name, kind.says) for kind in listing.KINDS.values())


def shells(incomplete: str) -> Offered:
    """Shells."""
    yield from (name for name in SCRIPTS if name.startswith(incomplete))


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=shells)],
    json: Annotated[bool, typer.Option("--json", help="Print the script within a JSON document.")] = False,
) -> int:
    """Print the script with which a shell completes commands, options, names and files.

    \b
      eval "$(syncline completion bash)"                           in ~/.bashrc
      syncline completion zsh > ~/.zfunc/_syncline                 with ~/.zfunc in $fpath, before compinit
      syncline completion fish > ~/.config/fish/completions/syncline.fish
    """
    if shell not in SCRIPTS:
        message = f"there is no script for this shell{did_you_mean(shell, SCRIPTS)}"
        raise command_line("SHELL", shell, message, one_of(SCRIPTS))
    if json:
        document = results.document([], seed=0, status="complete", warnings=[])
        print(results.dumps(document | {"shell": shell, "script": SCRIPTS[shell], "file": WHERE[shell]}))
    else:
        print(SCRIPTS[shell], end="")
    return 0
