// Package guestfile reads files that a machine can write.
//
// Root in a machine decides what such a file is: a link to a file of the host, a FIFO that nobody writes, a device
// whose driver acts when it is opened, a file without an end. The functions of this package open a file only after they
// have seen that it is a regular file with a single name, never follow a symbolic link, never wait, and read no more
// than the caller allows. The daemon reads such files in no other way, and writes none: what the host has for machines
// lies in directories that no machine can write.
package guestfile
