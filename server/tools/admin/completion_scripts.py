"""The scripts that connect shells with `magnetar admin completion words`.

Each also completes `pulsar-admin`, for those to whom that is an alias of `magnetar admin`.
"""

_BASH = """\
_magnetar_admin() {
    # COMP_WORDS is divided at colons, which names of topics have: the line itself is divided at blanks only.
    local line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    if [ "${words[0]}" = magnetar ]; then
        [ "${words[1]}" = admin ] && [ "${#words[@]}" -gt 2 ] || return
        words=("${words[@]:1}")
    fi
    local last="${words[@]: -1}" IFS=$'\\n'
    COMPREPLY=($(command magnetar admin completion words -- "${words[@]:1}" 2>/dev/null))
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
complete -o default -F _magnetar_admin magnetar pulsar-admin
"""

_ZSH = """\
#compdef magnetar pulsar-admin
_magnetar_admin() {
    local -a typed found
    typed=("${(@Q)words[2,CURRENT]}")
    if [[ "${words[1]}" == magnetar ]]; then
        if [[ "${typed[1]}" != admin ]] || (( $#typed < 2 )); then
            _default
            return
        fi
        typed=("${(@)typed[2,-1]}")
    fi
    found=("${(@f)$(command magnetar admin completion words -- "${(@)typed}" 2>/dev/null)}")
    if [[ "${found[1]}" == */ ]]; then
        compadd -S '' -a found
    elif [[ -n "${found[1]}" ]]; then
        compadd -a found
    fi
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
