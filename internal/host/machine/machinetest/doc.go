// Package machinetest provides what tests of machines boot: an init of a few lines, and a network namespace to boot it
// in.
//
// The test program is its own coracle-node: it calls Main first thing in TestMain.
package machinetest
