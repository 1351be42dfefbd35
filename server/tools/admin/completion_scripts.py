"""The scripts that connect shells with `magnetar admin completion words`.

Each also completes `pulsar-admin`, for those to whom that is an alias of `magnetar admin`.
"""

_BASH = """\
_magnetar_admin() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    [ "${COMP_WORDS[0]}" = magnetar ] && { [ "${words[0]}" = admin ] || return; words=("${words[@]:1}"); }
    local IFS=$'\\n'
    COMPREPLY=($(command magnetar admin completion words -- "${words[@]}" 2>/dev/null))
    [[ "${COMPREPLY[0]}" == */ ]] && compopt -o nospace 2>/dev/null
    # A colon ends a word for readline: only what follows the last one may be put in.
    if [[ "${words[-1]}" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        local head="${words[-1]%"${words[-1]##*:}"}" i
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]="${COMPREPLY[i]#"$head"}"; done
    fi
}
complete -o default -F _magnetar_admin magnetar pulsar-admin
"""

_ZSH = """\
#compdef magnetar pulsar-admin
_magnetar_admin() {
    local -a typed found
    typed=("${(@)words[2,CURRENT]}")
    if [[ "${words[1]}" == magnetar ]]; then
        [[ "${typed[1]}" == admin ]] || return
        typed=("${(@)typed[2,-1]}")
    fi
    found=("${(@f)$(command magnetar admin completion words -- "${(@)typed}" 2>/dev/null)}")
    [[ -n "${found[1]}" ]] && compadd -Q -a found
}
compdef _magnetar_admin magnetar pulsar-admin
"""

_FISH = """\
function __magnetar_admin
    set -l typed (commandline -opc) (commandline -ct)
    if test "$typed[1]" = magnetar
        test "$typed[2]" = admin; or return
        set -e typed[1]
    end
    set -e typed[1]
    command magnetar admin completion words -- $typed 2>/dev/null
end
complete -c magnetar -n '__fish_seen_subcommand_from admin' -f -a '(__magnetar_admin)'
complete -c pulsar-admin -f -a '(__magnetar_admin)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
