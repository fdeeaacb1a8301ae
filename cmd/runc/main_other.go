//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "coracle-runc: nodes need Linux; build it with GOOS=linux to run it on one")
	os.Exit(1)
}
