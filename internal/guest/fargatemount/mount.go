//go:build linux

// Package fargatemount is the mount(8) of a Fargate machine: the kubelet and the EFS CSI driver find it before that of
// the system, by their PATH. Both run mount with words of PersistentVolumes and pods, which administrators of the
// cluster write and may change at any moment: a server of NFS named "-aTFILE" is an option of mount(8), and
// X-mount.mkdir among the mount options of a volume has it make directories.
//
// It takes the few command lines by which they mount what a pod on Fargate may have, with a source that the pod was
// scheduled with, and a target in the directory of the pod. It passes them on to the mount(8) of the system so that no
// word is an option, and mounts volumes of EFS itself, as package efsmount does.
package fargatemount

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/efsmount"
	"github.com/coracle-eks/coracle/internal/guest/fargate"
	"github.com/coracle-eks/coracle/internal/guest/podvolume"
	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

const (
	// Name is the name of the program.
	Name = "mount"

	// system is the mount(8) of the system.
	system = "/usr/bin/mount"

	kubeletDir = "/var/lib/kubelet/"
)

// exitUsage is the exit status of mount(8) for what it does not do.
const exitUsage = 1

// Main mounts, and returns the exit status of mount(8).
func Main(args []string, stdout, stderr io.Writer) int {
	c, err := parse(args)
	if err == nil {
		err = validateHere(c)
	}
	if err != nil {
		fmt.Fprintln(stderr, "mount on Fargate:", err)
		return exitUsage
	}
	if c.kind == typeEFS {
		return efsmount.Run(efsmount.Options{Credentials: credentials}, c.helperArguments(), stdout, stderr)
	}
	err = unix.Exec(system, c.systemArguments(), os.Environ())
	fmt.Fprintf(stderr, "mount on Fargate: run %s: %v\n", system, err)
	return exitUsage
}

// credentials returns those of the pod execution role.
func credentials(ctx context.Context) (aws.Credentials, error) {
	c, err := fargate.Credentials(ctx)
	return aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.Token}, err
}

// Types of file systems that are mounted. A bind mount has none.
const (
	typeBind  = ""
	typeTmpfs = "tmpfs"
	typeNFS   = "nfs"
	typeEFS   = "efs"
)

// noCanonicalize is the option with which the kubelet mounts the paths of subPath.
const noCanonicalize = "--no-canonicalize"

// command is a command line of mount(8).
type command struct {
	kind           string
	noCanonicalize bool
	options        []string
	source, target string
}

// parse reads "[--no-canonicalize] [-t TYPE] [-o OPTIONS] SOURCE TARGET", as k8s.io/mount-utils writes it. Nothing
// else is taken; the last two words are the source and the target, whatever they look like.
func parse(args []string) (c command, err error) {
	for len(args) > 2 {
		option, value := args[0], args[1]
		switch {
		case option == noCanonicalize && !c.noCanonicalize:
			c.noCanonicalize = true
			args = args[1:]
			continue
		case option == "-t" && c.kind == "" && value != "":
			c.kind = value
		case option == "-o" && c.options == nil && value != "":
			c.options = strings.Split(value, ",")
		default:
			return c, fmt.Errorf("the option %.100q is not supported", option)
		}
		args = args[2:]
	}
	if len(args) != 2 {
		return c, fmt.Errorf("a source and a target are required, and %.200q are given", args)
	}
	c.source, c.target = args[0], args[1]
	return c, nil
}

// systemArguments returns the arguments of the mount(8) of the system, with its name.
func (c command) systemArguments() []string {
	args := []string{Name}
	if c.noCanonicalize {
		args = append(args, noCanonicalize)
	}
	if c.kind != "" {
		args = append(args, "-t", c.kind)
	}
	if len(c.options) > 0 {
		args = append(args, "-o", strings.Join(c.options, ","))
	}
	return append(args, "--", c.source, c.target)
}

// helperArguments returns the arguments of mount.efs.
func (c command) helperArguments() []string {
	args := []string{c.source, c.target}
	if len(c.options) > 0 {
		args = append(args, "-o", strings.Join(c.options, ","))
	}
	return args
}

// machine is what the command lines are validated against.
type machine struct {
	uid      string   // of the pod
	nfs      []string // sources of NFS that the pod was scheduled with
	kubelet  int      // the process that calls
	resolved func(path string) (string, error)
	readlink func(path string) (string, error)
}

func validateHere(c command) error {
	data, err := os.ReadFile(filepath.Join(boot.HostDir, boot.FargateFile))
	if err != nil {
		return err
	}
	config, err := fargate.Parse(data)
	if err != nil {
		return err
	}
	return machine{uid: config.PodUID, nfs: config.NFS, kubelet: os.Getppid(), resolved: filepath.EvalSymlinks,
		readlink: os.Readlink}.validate(c)
}

// Options of mounts by their types. Those of EFS are mount.efs's to validate.
var (
	tmpfsOption = regexp.MustCompile(`^(noswap|size=[0-9]+)$`)
	nfsOptions  = []string{"ro"}
	bindOptions = []string{"bind", "remount", "ro", "nodev", "noexec", "nosuid", "noatime", "relatime", "nodiratime",
		"_netdev"}
)

// tmpfsProbe matches the directories in which the kubelet tries the option noswap.
var tmpfsProbe = regexp.MustCompile(`^` + kubeletDir + `(plugins/kubernetes\.io/empty-dir/)?tmpfs-noswap-test-[0-9]+$`)

// efsSource matches what the driver mounts.
var efsSource = regexp.MustCompile(`^fs-[0-9a-f]{8,40}:/`)

// validate refuses what the kubelet and the driver do not mount for the pod of the machine.
func (m machine) validate(c command) error {
	isOption := func(string) bool { return true }
	switch c.kind {
	case typeTmpfs:
		isOption = tmpfsOption.MatchString
	case typeNFS:
		isOption = func(o string) bool { return slices.Contains(nfsOptions, o) }
	case typeBind:
		isOption = func(o string) bool { return slices.Contains(bindOptions, o) }
	case typeEFS:
	default:
		return fmt.Errorf("file systems of the type %.60q are not supported", c.kind)
	}
	for _, o := range c.options {
		if !isOption(o) {
			return fmt.Errorf("the mount option %.100q is not supported", o)
		}
	}
	if c.noCanonicalize != (c.kind == typeBind) {
		return fmt.Errorf("%s is for paths of volumes (subPath), and they are mounted with it", noCanonicalize)
	}
	if err := m.validateSource(c); err != nil {
		return err
	}
	return m.validateTarget(c)
}

func (m machine) validateSource(c command) error {
	refused := fmt.Errorf("the pod was scheduled with other volumes than %.200q, which is not a source of %s", c.source,
		c.kind)
	switch c.kind {
	case typeTmpfs:
		if c.source != "tmpfs" {
			return refused
		}
	case typeNFS:
		if strings.HasPrefix(c.source, "-") || !slices.Contains(m.nfs, c.source) {
			return refused
		}
	case typeEFS: // the driver knows the volumes
		if !efsSource.MatchString(c.source) {
			return refused
		}
	default:
		if !slices.Contains(c.options, "bind") {
			return fmt.Errorf("a mount of %.200q has no type", c.source)
		}
		fd, ok := strings.CutPrefix(c.source, fmt.Sprintf("/proc/%d/fd/", m.kubelet))
		if _, err := strconv.ParseUint(fd, 10, 31); !ok || err != nil {
			return fmt.Errorf("%.200q is not an open file of the kubelet, as paths of volumes (subPath) are", c.source)
		}
		file, err := m.readlink(c.source)
		if err != nil {
			return err
		}
		if _, _, ok := podvolume.Parse(m.uid, file); !ok {
			return fmt.Errorf("%.200q is not in a volume of the pod", file)
		}
	}
	return nil
}

// validateTarget refuses what is not a directory of the kubelet for a volume of the type in the directory of the pod.
// All above it are root's.
func (m machine) validateTarget(c command) error {
	refused := fmt.Errorf("%.200q is not where the kubelet mounts %s for the pod of this machine", c.target, c.kind)
	if at, err := m.resolved(c.target); err != nil {
		return err
	} else if at != c.target || path.Clean(c.target) != c.target {
		return refused
	}
	if c.kind == typeTmpfs && tmpfsProbe.MatchString(c.target) {
		return nil
	}
	volume, within, ok := podvolume.Parse(m.uid, c.target)
	isVolume := ok && within == ""
	switch c.kind {
	case typeTmpfs:
		ok = isVolume && volume.InMemory()
	case typeNFS:
		ok = isVolume && volume.Plugin == podvolume.NFS
	case typeEFS:
		ok = isVolume && volume.Plugin == podvolume.CSI
	default:
		rest, inPod := strings.CutPrefix(c.target, podvolume.PodsDir+m.uid+"/volume-subpaths/")
		ok = m.uid != "" && inPod && strings.Count(rest, "/") == 2
	}
	if !ok {
		return refused
	}
	return nil
}
