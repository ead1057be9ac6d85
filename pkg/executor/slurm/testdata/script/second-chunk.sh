#!/bin/bash
#SBATCH --job-name=lathe-r1-rollout-000001
#SBATCH --comment="lathe /data/runs/r1"
#SBATCH --array=0-48%5
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --gres=gpu:1
#SBATCH --time=30
#SBATCH --signal=B:USR2@180
#SBATCH --chdir=/data/runs/r1
#SBATCH --output=/data/runs/r1/logs/rollout-000001.0.slurm-%A.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --requeue
#SBATCH --kill-on-invalid-dep=no
set -euo pipefail

shard=$((101 + SLURM_ARRAY_TASK_ID))
printf -v log '%s-%05d.0.log' /data/runs/r1/logs/rollout-000001 "$shard"
exec >>"$log" 2>&1
export LATHE_ATTEMPT=0
export LATHE_THREADS=4

exec /opt/lathe/bin/lathe-rollout --run /data/runs/r1 --shard "$shard"
