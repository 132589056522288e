_hanzo-kafka() {
    local i cur prev opts cmds
    COMPREPLY=()
    cur="${COMP_WORDS[COMP_CWORD]}"
    prev="${COMP_WORDS[COMP_CWORD-1]}"
    cmd=""
    opts=""

    for i in ${COMP_WORDS[@]}
    do
        case "${i}" in
            hanzo-kafka)
                cmd="hanzo-kafka"
                ;;

            *)
                ;;
        esac
    done

    case "${cmd}" in
        hanzo-kafka)
            opts=" -h -V  --embedded --accept-any-replication-factor --help --version --pubsub-url --nats-creds --nats-nkey --nats-user --nats-password-file --nats-token-file --data-dir --nats-server --host --port --advertise --admin-host --admin-port --node-id --replicas --retention --retention-bytes --default-partitions --auto-create --workers --max-connections --connections-max-idle --group-initial-rebalance-delay --group-min-session-timeout --group-max-session-timeout --group-max-size --offset-metadata-max-bytes --offsets-retention --log-format --log-level --slow-request-ms  "
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in

                --pubsub-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-creds)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-nkey)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-password-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --data-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --nats-server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --advertise)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --admin-host)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --admin-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --node-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --replicas)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --retention)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --retention-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --default-partitions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auto-create)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --workers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --max-connections)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --connections-max-idle)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group-initial-rebalance-delay)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group-min-session-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group-max-session-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --group-max-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --offset-metadata-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --offsets-retention)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-format)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log-level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --slow-request-ms)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;

    esac
}

complete -F _hanzo-kafka -o bashdefault -o default hanzo-kafka
