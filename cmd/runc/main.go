//go:build linux

package main

import (
	"os"

	"github.com/coracle-eks/coracle/internal/guest/containertrust"
)

func main() { os.Exit(containertrust.Main(os.Args[0], os.Args[1:])) }
