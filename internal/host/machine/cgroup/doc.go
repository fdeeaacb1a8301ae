// Package cgroup bounds a machine: it makes the cgroup in which everything of the machine runs, whichever version of
// cgroups the host has.
//
// A machine's group is coracle/<owner>/<instance ID> in each hierarchy: in those of every controller with version 1,
// in the only one with version 2. It has the machine's limits and its device rules. The machine is in a child of it,
// "machine", which a cgroup namespace makes look like the root inside: root in a machine can write to the files of
// what it sees, so that what bounds it has to be out of its sight. The group is made anew for each boot, so that
// nothing that an earlier boot has left (kubepods/...) confuses the next.
//
// https://docs.kernel.org/admin-guide/cgroup-v1/ and https://docs.kernel.org/admin-guide/cgroup-v2.html
package cgroup
