// Package mountgrant is the protocol by which the launcher of a machine asks the daemon whether a process of the
// machine may mount an EFS file system.
//
// The launcher connects from the network namespace of that process to the mount target's address and port 2049, so that
// the route tables, network ACLs and security groups of the VPC decide whether it gets there. The daemon listens on the
// other side. What is between the two is the machine's: its root may lead the connection elsewhere, and change what is
// sent. Both sides prove by a key that the daemon has written into the directory of the machine on the host, which the
// machine does not see, that they are what they claim to be. Each message is bound to the machine, to a number that
// each side has chosen for this connection, and a grant to its request.
//
//	launcher                                         daemon
//	   | magic, hello {instance ID, nonce}              |
//	   |----------------------------------------------->|
//	   |           challenge {nonce}, proof of the key  |
//	   |<-----------------------------------------------|
//	   | request, sealed                                |
//	   |----------------------------------------------->|
//	   |                                  grant, sealed |
//	   |<-----------------------------------------------|
package mountgrant
