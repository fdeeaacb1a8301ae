package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/kubernetes"
)

func componentsCommand() *cobra.Command {
	var into, addons string
	cmd := &cobra.Command{
		Use:   "components [ADDON[@VERSION]...]",
		Short: "Build what add-ons run",
		Long: "Build what the named add-ons run, or all add-ons. Without a version, such as in " +
			"metrics-server@v0.9.0-eksbuild.1, it is the default version of the add-on.",
		RunE: func(cmd *cobra.Command, names []string) error {
			into, err := filepath.Abs(into)
			if err != nil {
				return err
			}
			return buildComponents(cmd.Context(), into, addons, names)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&into, "output", "o", filepath.Join("bin", "node"),
		"`directory` of the programs of nodes to build into")
	flags.StringVar(&addons, "dir", "", "`directory` of more add-ons")
	return cmd
}

func buildComponents(ctx context.Context, into, addons string, names []string) error {
	all, err := catalog.Open(catalog.Options{Dir: addons})
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, addon := range all.Addons() {
			names = append(names, addon.Name)
		}
	}
	components := upstream.ComponentsIn(into)
	report := printer()
	seen := make(map[string]bool)
	for _, name := range names {
		version, err := findVersion(all, name)
		if err != nil {
			return err
		}
		for _, image := range version.Images("us-east-1", kubernetes.Default) {
			if image.Build == nil || seen[components.Version(*image.Build)] {
				continue
			}
			seen[components.Version(*image.Build)] = true
			built, err := components.IsBuilt(*image.Build)
			if err != nil {
				return err
			}
			if err := components.Ensure(ctx, *image.Build, report); err != nil {
				return err
			}
			if built {
				title := image.Build.Component + " " + image.Build.Version
				report(upstream.Progress{Title: title, Step: upstream.Ready, Detail: into})
			}
		}
	}
	return nil
}

// findVersion finds a version of an add-on by "ADDON" or "ADDON@VERSION".
func findVersion(all *catalog.Catalog, name string) (catalog.Version, error) {
	name, wanted, exact := strings.Cut(name, "@")
	addon, ok := all.Addon(name)
	if !ok {
		return catalog.Version{}, fmt.Errorf("there is no add-on %q", name)
	}
	version, ok := addon.Default(kubernetes.Default)
	if exact {
		version, ok = addon.Version(wanted)
	}
	if !ok {
		return catalog.Version{}, fmt.Errorf("the add-on %s has no version %q", name, wanted)
	}
	return version, nil
}
