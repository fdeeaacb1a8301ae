// Package confine takes from the processes of a machine what none of them needs: capabilities, and system calls of a
// kernel that is the host's as well.
//
// A machine in a user namespace of its own cannot do with them what the tables of this package are about, because the
// kernel asks for the capabilities of the host's users. There the package keeps away from the kernel what only offers a
// surface for attacks. For a machine in the host's user namespace the tables are what there is between its root and the
// host; what they leave open is said in SECURITY.md.
package confine
