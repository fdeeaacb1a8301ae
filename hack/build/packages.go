package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/nodeimage"
	"github.com/coracle-eks/coracle/node"
)

// packagesCommand writes which packages the node image has, for each architecture.
func packagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packages",
		Short: "Write the versions that Debian has now of the packages of the node image",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := make(map[string][]node.Package)
			for _, architecture := range []string{"amd64", "arm64"} {
				index, err := nodeimage.Debian().Index(cmd.Context(), architecture)
				if err != nil {
					return err
				}
				pinned, err := node.Packages(architecture)
				if err != nil {
					return err
				}
				all[architecture], err = nodeimage.Resolve(index, pinned, node.WantedPackages, node.UnwantedPackages)
				if err != nil {
					return err
				}
			}
			content, err := json.MarshalIndent(all, "", "\t")
			if err != nil {
				return err
			}
			// Open to others: it is a source.
			return durable.WriteFile("node/source/packages.json", append(content, '\n'), 0o644)
		},
	}
}
