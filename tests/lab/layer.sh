# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Makes an overlay the root of this mount namespace, as in a container. $0: the project's folder.
set -e
mount --make-rprivate /
mount -t tmpfs none /mnt
mkdir /mnt/changes /mnt/work /mnt/root
mount -t overlay none -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir -p run/layer ".$0"
mount --bind /mnt/changes run/layer
for folder in /dev /proc /sys "$0"; do mount --rbind "$folder" ".$folder"; done
mount --bind proc/sys proc/sys
for folder in /proc/sys "$0"; do mount -o remount,bind,ro ".$folder"; done
mkdir mnt/old
pivot_root . mnt/old
cd /
umount -l /mnt/old
rmdir /mnt/old
