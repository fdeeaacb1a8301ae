// Command markdown checks the structure of the Markdown pages that it is given, which "make check" calls in the
// directory of the repository:
//
//	go run ./hack/markdown README.md docs/*.md
//
// It reads the pages and the names of the files that they link to, writes findings to standard error as
// "file:line: what is wrong", and exits with 1 when there are any.
package main

import (
	"fmt"
	"os"
)

func main() {
	findings, err := checkFiles(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Fprintln(os.Stderr, finding)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}
