// Package losetup keeps disks of a machine open for its kubelet, in place of the loop devices that machines do not
// have.
//
// The kubelet keeps each raw block volume of a pod open as long as the pod has it, so that its number goes to no other
// disk. It does so with a loop device over the volume: it runs "losetup -f PATH", finds the device as the directory of
// /sys/block whose loop/backing_file has that path, and runs "losetup -d" in the end. Nobody reads or writes through
// that device.
// (https://github.com/kubernetes/kubernetes/tree/master/pkg/volume/util/volumepathhandler)
//
// No loop device is made: losetup leaves a process that has the disk open, and a directory in /sys/block, which is
// the machine's own. It does nothing that the root of the machine could not do by itself, and asks nobody on the host.
package losetup
