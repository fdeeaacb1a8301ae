// Command coracle-runc is what containerd on a node takes for runc: it prepares the container that is to be created
// (packages containertrust, containerdevice, containersysctl, containerguard), and becomes runc. It is no part of
// coracle-node, whose libraries take more than twice as long to initialize: each probe that executes a command in a
// container starts it.
package main
