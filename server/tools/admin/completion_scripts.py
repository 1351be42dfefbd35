"""The scripts that connect shells with `magnetar completion words`.

Each also completes `pulsar-admin`, for those to whom that is an alias of `magnetar admin`.
"""

_BASH = """\
_magnetar() {
    # COMP_WORDS is divided at colons, which names of topics have: the line itself is divided at blanks only.
    local line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    if [ "${words[0]}" = pulsar-admin ]; then words=(magnetar admin "${words[@]:1}"); fi
    local last="${words[@]: -1}" IFS=$'\\n'
    COMPREPLY=($(command magnetar completion words -- "${words[@]:1}" 2>/dev/null))
    [[ "${COMPREPLY[0]}" == */ ]] && compopt -o nospace 2>/dev/null
    # A topic may be called anything: what the shell would run or divide is put in quotes.
    local i
    for i in "${!COMPREPLY[@]}"; do printf -v "COMPREPLY[i]" %q "${COMPREPLY[i]}"; done
    # Readline replaces only what follows the last colon.
    if [[ "$last" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        local head="${last%"${last##*:}"}"
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]="${COMPREPLY[i]#"$head"}"; done
    fi
}
complete -o default -F _magnetar magnetar pulsar-admin
"""

_ZSH = """\
#compdef magnetar pulsar-admin
_magnetar() {
    local -a typed found
    typed=("${(@Q)words[2,CURRENT]}")
    [[ "${words[1]}" == pulsar-admin ]] && typed=(admin "${(@)typed}")
    found=("${(@f)$(command magnetar completion words -- "${(@)typed}" 2>/dev/null)}")
    if [[ "${found[1]}" == */ ]]; then
        compadd -S '' -a found
    elif [[ -n "${found[1]}" ]]; then
        compadd -a found
    else
        _default
    fi
}
compdef _magnetar magnetar pulsar-admin
"""

_FISH = """\
function __magnetar
    set -l typed (commandline -opc) (commandline -ct)
    if test "$typed[1]" = pulsar-admin
        set typed[1] admin
    else
        set -e typed[1]
    end
    command magnetar completion words -- $typed 2>/dev/null
end
complete -c magnetar -a '(__magnetar)'
complete -c magnetar -n '__fish_seen_subcommand_from admin' -f
complete -c pulsar-admin -f -a '(__magnetar)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
