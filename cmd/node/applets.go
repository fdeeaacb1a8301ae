package main

// applets are the programs by name.
var applets = map[string]applet{}
