#!/bin/sh
# lead.sh GPUS COMMAND...
# The first pod of a group: one rank a GPU on every pod, by ssh; the command runs on rank 0.
set -eu
gpus=$1
shift
first=${LWS_LEADER_ADDRESS%%.*}
domain=${LWS_LEADER_ADDRESS#*.}
hosts=$LWS_LEADER_ADDRESS:$gpus
options="-p 2222 -i /ssh/id_ed25519 -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/tmp/known_hosts"
printf '* %s\n' "$(cat /ssh/ssh_host_ed25519_key.pub)" >/tmp/known_hosts
index=1
while [ "$index" -lt "$LWS_GROUP_SIZE" ]; do
    worker=$first-$index.$domain
    # shellcheck disable=SC2086 # options are words
    until ssh $options "$worker" true; do sleep 2; done
    hosts=$hosts,$worker:$gpus
    index=$((index + 1))
done
exec mpirun -n "$((LWS_GROUP_SIZE * gpus))" --map-by "ppr:$gpus:node" --host "$hosts" \
    --mca plm_rsh_args "$options" -x PATH -x LD_LIBRARY_PATH -x HOME -x USER trtllm-llmapi-launch "$@"
