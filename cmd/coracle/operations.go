package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/daemon"
)

// operationsCommand writes docs/operations.md ("make docs").
func operationsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "operations",
		Short:  "Print which operations of AWS are served, in Markdown",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return printOperations(cmd.OutOrStdout()) },
	}
}

// printOperations writes which operations of AWS are served, as a page of the documentation.
func printOperations(w io.Writer) error {
	type service struct {
		served, unserved []string
	}
	services := map[*wire.Service]*service{}
	for _, op := range daemon.Operations() {
		s := services[op.Service]
		if s == nil {
			s = &service{}
			services[op.Service] = s
		}
		if op.Served {
			s.served = append(s.served, op.Name)
		} else {
			s.unserved = append(s.unserved, op.Name)
		}
	}
	var b strings.Builder
	b.WriteString(`# Operations

Generated from the code by ` + "`make docs`" + `. An operation that is not listed as served is answered with a clear
"not implemented by coracle" error, never with a fake success.

| Service | Served | Known to the SDK |
|---|---:|---:|
`)
	for _, known := range wire.Services() {
		if s := services[known]; s != nil {
			fmt.Fprintf(&b, "| %s | %d | %d |\n", known.Name, len(s.served), len(s.served)+len(s.unserved))
		}
	}
	for _, known := range wire.Services() {
		s := services[known]
		if s == nil || len(s.served) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", known.Name, sentence(s.served))
		if len(s.unserved) > 0 {
			fmt.Fprintf(&b, "\n<details><summary>Not served (%d)</summary>\n\n%s\n\n</details>\n", len(s.unserved),
				sentence(s.unserved))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence lists names in lines of at most 120 characters.
func sentence(names []string) string {
	var b strings.Builder
	width := 0
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		} else {
			name += "."
		}
		switch {
		case i == 0:
		case width+1+len(name) > 120:
			b.WriteByte('\n')
			width = 0
		default:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(name)
		width += len(name)
	}
	return b.String()
}
