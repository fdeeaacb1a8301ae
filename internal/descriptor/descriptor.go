// Package descriptor keeps file descriptors that this program has inherited from the programs that it starts.
//
// A shell, a CI runner or a service manager may leave descriptors open in what it starts: a directory of the host that
// a machine gets is a way out of that machine. Go opens its own files close-on-exec, and knows nothing of those that
// were there before.
package descriptor
