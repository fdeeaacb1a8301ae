// Package usernamespace gives machines user namespaces: root inside a machine is an unprivileged user of the host,
// whatever it mounts.
//
// A machine's user namespace maps its IDs 0 to 65535 to a range of the host's that no other machine has. It is made
// together with the network namespace of the instance ([Create]), which it owns and which keeps it: [Of] finds it
// again. What runs in the machine is started in it ([Start]), and the machine's files are shown to it through ID-mapped
// mounts ([MapMount]), so that on the disk they have the IDs that they have inside, and a disk does not depend on the
// range. [Check] says why a host cannot do that.
//
// https://man7.org/linux/man-pages/man7/user_namespaces.7.html and https://docs.kernel.org/filesystems/idmappings.html
package usernamespace
