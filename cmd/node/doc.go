// Command coracle-node is everything of Coracle that runs as a machine or inside one: one program with many names, as
// /sbin/init, systemctl or nodeadm call it. The first argument, or the name that it is called by, says what it is.
package main
