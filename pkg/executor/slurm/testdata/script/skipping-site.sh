#!/bin/bash
#SBATCH --job-name=lathe-r1-rollout-000001
#SBATCH --comment="lathe /data/runs/r1"
#SBATCH --array=0-1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --time=30
#SBATCH --output=/data/runs/r1/logs/rollout-000001-%5a.0.log
#SBATCH --open-mode=append
set -euo pipefail

shard=$((0 + SLURM_ARRAY_TASK_ID))
export LATHE_ATTEMPT=0
export LATHE_THREADS=4

exec /opt/lathe/bin/lathe-rollout --run /data/runs/r1 --shard "$shard"
