package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Image is one that pods of a version run.
type Image struct {
	// Reference is its name in EKS's registry of the region:
	// "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.14.7-eksbuild.1".
	Reference string
	// Public is the reference under which upstream publishes it; empty when upstream does not.
	Public string
	// Build is the build that it is made of; nil when it cannot be built here, or needs no programs but those of nodes.
	Build *Build
	// Recipe describes how it is made from the build.
	Recipe Recipe
}

// MadeHere reports whether the image is made here: of its build, or of the programs of nodes.
func (i Image) MadeHere() bool { return i.Build != nil || len(i.Recipe.Files) > 0 }

// Recipe describes how an image is made: which files it has, and how it is run.
type Recipe struct {
	// Like names one of the images that nodes use anyway ("amazon-k8s-cni"), which it is made like; then all else is
	// empty.
	Like string
	// Base has, beside users and the certificates of authorities, "iptables", or "filesystems": what makes and mounts
	// file systems of disks.
	Base []string
	// Files are the programs in the image, by path: of the component, or "node:loopback" of what runs on nodes.
	Files map[string]string
	// The others are as in a Dockerfile.
	Entrypoint, Command, Env, Ports []string
	User, WorkingDir                string
}

// imageEntry is an image as addon.yaml says it. In its strings "{version}" stands for upstream's version ("v0.9.0"),
// "{build}" for what EKS adds to it ("eksbuild.1").
type imageEntry struct {
	// Repository is that in EKS's registry, "eks/metrics-server"; or a full name, "docker.io/library/nginx", which is
	// all that private entries may have.
	Repository string `yaml:"repository"`
	// Tag is "{version}-{build}" when empty.
	Tag    string `yaml:"tag"`
	Public string `yaml:"public"`
	// Component is the component that it is built from; images of versions that the component does not name are public
	// only. Without one, Files has programs of nodes alone.
	Component  string            `yaml:"component"`
	Like       string            `yaml:"like"`
	Base       []string          `yaml:"base"`
	Files      map[string]string `yaml:"files"`
	Entrypoint []string          `yaml:"entrypoint"`
	Command    []string          `yaml:"command"`
	Env        []string          `yaml:"env"`
	Ports      []string          `yaml:"ports"`
	User       string            `yaml:"user"`
	WorkingDir string            `yaml:"workingDir"`
}

// validate returns the problems of the section of an image.
func (i imageEntry) validate(components map[string]componentEntry, private bool) error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if i.Repository == "" {
		add("repository is missing")
	} else if private && !qualified(i.Repository) {
		add(`repository: %q has no registry: write it out, "docker.io/library/nginx"`, i.Repository)
	}
	for _, base := range i.Base {
		if base != "iptables" && base != "filesystems" {
			add(`base: %q is not known; there are "iptables" and "filesystems"`, base)
		}
	}
	component, known := components[i.Component]
	switch {
	case i.Component == "" && (private && len(i.Files) > 0 || i.Like != "" && len(i.Entrypoint) > 0):
		add("files are of a component, and none is named")
	case i.Component != "" && !known:
		add("component: there is no %q below components", i.Component)
	case i.Component != "" && i.Like == "" && len(i.Files) == 0:
		add("files is empty: it says where in the image the programs of %s are", i.Component)
	}
	for to, program := range i.Files {
		if !strings.HasPrefix(to, "/") {
			add("files.%s: it is a path in the image and begins with a slash", to)
		}
		if _, ok := component.Programs[program]; (known || i.Component == "") && !ok &&
			!strings.HasPrefix(program, "node:") {
			add("files.%s: %q is no program of %s", to, program, cmp.Or(i.Component, "nodes"))
		}
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

// qualified reports whether a repository's name begins with that of a registry.
func qualified(repository string) bool {
	host, _, ok := strings.Cut(repository, "/")
	return ok && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// resolveImage returns the image of a version ("v0.9.0-eksbuild.1") in the given registry of EKS
// ("602401143452.dkr.ecr.eu-west-1.amazonaws.com").
func (i imageEntry) resolveImage(components map[string]componentEntry, addon, version, registry string, private bool,
	read func(name string) ([]byte, error)) (Image, error) {
	at := strings.NewReplacer("{version}", upstream(version), "{build}", buildNumber(version))
	tag := version
	if i.Tag != "" {
		tag = at.Replace(i.Tag)
	}
	image := Image{Reference: i.Repository + ":" + tag, Public: at.Replace(i.Public), Recipe: Recipe{
		Like: i.Like, Base: i.Base, Files: i.Files, Entrypoint: i.Entrypoint, Command: i.Command, Env: i.Env,
		Ports: i.Ports, User: i.User, WorkingDir: i.WorkingDir,
	}}
	if !qualified(i.Repository) {
		image.Reference = registry + "/" + image.Reference
	}
	component, ok := components[i.Component]
	if !ok {
		return image, nil
	}
	name := i.Component
	if private {
		name = addon + "/" + name
	}
	var err error
	image.Build, err = component.resolveBuild(name, cmp.Or(upstream(version), version), read)
	return image, err
}
