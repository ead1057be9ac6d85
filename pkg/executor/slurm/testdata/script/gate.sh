#!/bin/bash
#SBATCH --job-name=lathe-r1-gate
#SBATCH --comment="lathe /data/runs/r1"
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --time=2
#SBATCH --chdir=/data/runs/r1
#SBATCH --output=/data/runs/r1/logs/gate-000001-00000.0.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --requeue
#SBATCH --kill-on-invalid-dep=no
set -euo pipefail

export LATHE_ATTEMPT=0
export LATHE_THREADS=4

exec /opt/lathe/bin/lathe advance --run /data/runs/r1 --executor slurm
