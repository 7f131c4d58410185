# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Follows layer.sh: runs the command in a chroot whose / is a mount of its own.
mount --bind / /mnt
for folder in /dev /proc /sys /run /tmp "$0"; do mount --rbind "$folder" "/mnt$folder"; done
set -- chroot /mnt "$@"
