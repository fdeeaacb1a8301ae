// Package csidriver has what the CSI drivers of Coracle share (packages ebscsi and efscsi): the gRPC server with the
// identity service, what a driver knows of its node, its clients of AWS and of the API server, mounts, and the
// side-cars that cannot be had as Go modules: the program that makes a driver known to kubelet, and the one that
// answers probes. Both keep the names and arguments of upstream's.
package csidriver
