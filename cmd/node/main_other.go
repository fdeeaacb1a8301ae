//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "coracle-node: machines need Linux; build it with GOOS=linux to run it in one")
	os.Exit(1)
}
