#!/usr/bin/env bash
# All runs of a profile as a Slurm job array: every job computes its part of the runs and stores them in one folder.
#
#   sbatch --array=1-8 deployment/slurm_array.sh --profile paper --seeds all --device cuda
#   fedcopl-lab reproduce --profile paper --seeds all --device cuda        # afterwards: draws what is stored
#
# $FEDCOPL_LAB_HOME must be a folder that all nodes see. A job that ran out of time is sent again with the same
# line: stored rounds are not computed twice. For other schedulers set PART and PARTS yourself.
#SBATCH --job-name=fedcopl-lab
#SBATCH --cpus-per-task=4
#SBATCH --gpus-per-task=1
#SBATCH --mem=32G
#SBATCH --time=24:00:00
#SBATCH --output=%x-%A-%a.log
set -euo pipefail
: "${FEDCOPL_LAB_HOME:?set it to a folder that all nodes see}"
PART=${PART:-${SLURM_ARRAY_TASK_ID:?no job array; set PART and PARTS}}
PARTS=${PARTS:-${SLURM_ARRAY_TASK_COUNT:?no job array; set PART and PARTS}}
exec fedcopl-lab reproduce --shard "$PART/$PARTS" --quiet "$@"
