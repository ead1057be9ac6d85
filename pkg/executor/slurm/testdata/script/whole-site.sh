#!/usr/bin/bash
#SBATCH --job-name=lathe-r1-rollout-000001
#SBATCH --comment="lathe /data/my runs/50% \"r1\""
#SBATCH --array=0-1
#SBATCH --partition=gpu,gpu-long
#SBATCH --account=lab
#SBATCH --qos=normal
#SBATCH --constraint="h100|a100"
#SBATCH --reservation=week
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --gpus-per-node=h100:1
#SBATCH --time=20
#SBATCH --signal=B:USR2@120
#SBATCH --chdir="/data/my runs/50% \"r1\""
#SBATCH --output="/data/my runs/50%% \"r1\"/logs/rollout-000001-%5a.0.log"
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --no-requeue
#SBATCH --kill-on-invalid-dep=yes
#SBATCH --exclude=node7
#SBATCH --mail-type=NONE
#SBATCH --exclude=node7,node3,node4
set -euo pipefail

shard=$((0 + SLURM_ARRAY_TASK_ID))
export B='it'\''s'
export HF_HOME='/scratch/$USER/hf'
export LATHE_ATTEMPT=0
export LATHE_THREADS=4

set +u
trap 'echo "the setup line failed: $BASH_COMMAND" >&2' ERR
module purge
module load cuda/12.4
trap - ERR
set -u

exec /opt/lathe/bin/lathe-rollout --run '/data/my runs/it'\''s' --shard "$shard"
