//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/diskspace"
	"github.com/coracle-eks/coracle/internal/durable"
	"github.com/coracle-eks/coracle/internal/guest/rootfs"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/machine/cgroup"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
	"github.com/coracle-eks/coracle/internal/host/machine/rootvolume"
	"github.com/coracle-eks/coracle/internal/host/mountgrant"
	"github.com/coracle-eks/coracle/internal/instancetype"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Failure is the reason that a machine cannot be launched, with EC2's code for the state reason.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
type Failure struct {
	Code string
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

const (
	internalError = "Server.InternalError"
	noCapacity    = "Server.InsufficientInstanceCapacity"
	launcher      = "coracle-node" // in a machine's directory: a link to the program that it was launched with
	consoleFile   = "console.log"
	containerdDir = "containerd"
	layersDir     = "layers" // of the images in the machine's cache: see copyContainerd
	baseImageLink = "ami"    // to the base image that the machine's disk lies over
	leastMemory   = 256 << 20
	leastDisk     = diskspace.Machine
	baseImagesDir = "ami" // in Options.Dir: base images by their names
)

// prepare prepares the disk, mounts and spec of a launch. It reports false until the network interfaces are plugged.
func (c *Controller) prepare(ctx context.Context, i record.Instance) (ready bool, err error) {
	if c.o.Unavailable != nil {
		return false, c.o.Unavailable
	}
	kind, err := sizeOf(i)
	if err != nil {
		return false, err
	}
	if own := architecture(); kind.architecture != "" && kind.architecture != own {
		return false,
			fmt.Errorf(
				"%s is a type of %s machines, and this host has %s processors: choose another type, or simulate "+
					"machines (--machines simulated)", i.InstanceType, kind.architecture, own)
	}
	if plugged, err := c.o.Network.Plugged(i.ID); err != nil || !plugged {
		return false, err
	}
	if err := c.checkCapacity(i.ID, kind); err != nil {
		return false, &Failure{noCapacity, err}
	}
	image, err := c.o.Images(ctx, i)
	if err != nil {
		return false, err
	}
	root, ready, err := c.rootVolume(ctx, i)
	if err != nil || !ready {
		return false, err
	}
	baseImage, err := c.prepareDisk(ctx, i.ID, image, root)
	if errors.Is(err, rootvolume.ErrAbsent) {
		return false, nil // it is attached again
	}
	if err != nil {
		return false, c.wrapDiskFull(err)
	}
	mounts, err := image.Mounts()
	if err != nil {
		return false, err
	}
	if err := c.writeDHCPLease(ctx, i); err != nil {
		return false, err
	}
	if err := c.writeFargate(i); err != nil {
		return false, c.wrapDiskFull(err)
	}
	spec, err := c.launchSpec(ctx, i, kind, baseImage, mounts, root)
	if err != nil {
		return false, err
	}
	dir := c.machineDir(i.ID)
	if err := mountgrant.EnsureKey(dir); err != nil {
		return false, c.wrapDiskFull(err)
	}
	if err := spec.Write(filepath.Join(dir, launch.SpecFile)); err != nil {
		return false, c.wrapDiskFull(err)
	}
	return true, replaceSymlink(image.Node, filepath.Join(dir, launcher))
}

// architecture returns the architecture of this host, in EC2's terms.
func architecture() string {
	if runtime.GOARCH == "arm64" {
		return instancetype.ARM64
	}
	return instancetype.X86_64
}

// checkCapacity refuses machines when the host itself would suffer. How much machines could use does not count: they
// may be overcommitted. What they take idle does, from the moment at which they are admitted.
func (c *Controller) checkCapacity(id string, kind size) error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	host, err := cgroup.Open()
	if err != nil {
		return err
	}
	used := func(id string) int64 { return host.Group(c.o.Owner, id).MemoryUsed() }
	if left, ok := c.memory.reserve(id, available, used, time.Now()); !ok {
		return fmt.Errorf(
			"there is no capacity for %s: the host has %s of memory left beside what machines need that are "+
				"starting, and a machine needs %s; end other machines, or use a larger host",
			kind.name, humanize.IBytes(uint64(max(left, 0))), humanize.IBytes(leastMemory))
	}
	if err := os.MkdirAll(c.o.Dir, 0o700); err != nil {
		return err
	}
	left, err := diskspace.Free(c.o.Dir)
	if err != nil {
		return err
	}
	if left < leastDisk {
		return fmt.Errorf(
			"there is no capacity for %s: %s has %s of disk left, and a machine needs %s: free some space", kind.name,
			c.o.Dir, humanize.IBytes(uint64(left)), humanize.IBytes(leastDisk))
	}
	return nil
}

func availableMemory() (int64, error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("/proc/meminfo does not say what is available")
}

// wrapDiskFull adds to the error of a full disk what to do about it.
func (c *Controller) wrapDiskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return &Failure{noCapacity, fmt.Errorf("%w: free some space in %s", err, c.o.Dir)}
	}
	return err
}

// rootVolume returns the volume on which the machine of an instance keeps its files; empty where directories of the
// host have them, as with instances of versions before there were such volumes. It reports false until the volume is
// attached.
func (c *Controller) rootVolume(ctx context.Context, i record.Instance) (id string, ready bool, err error) {
	at := slices.IndexFunc(i.BlockDevices, func(b record.InstanceBlockDevice) bool { return b.Root })
	if at < 0 {
		return "", true, nil
	}
	key := record.EC2Key(i.Account, i.Region, i.BlockDevices[at].VolumeID)
	v, err := c.volumes.Get(ctx, key)
	if err != nil {
		return "", false, fmt.Errorf("the root volume of %s: %w", i.ID, err)
	}
	if v.Value.Diskless {
		return "", true, nil
	}
	d, err := c.disks.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", false, nil
	case err != nil:
		return "", false, err
	case slices.ContainsFunc(d.Value.Attachments, func(a record.DiskAttachment) bool {
		return a.InstanceID == i.ID && !a.Attaching()
	}):
		return v.Value.ID, true, nil
	case d.Value.Failure != "":
		return "", false, &Failure{noCapacity, fmt.Errorf("the root volume %s: %s", v.Value.ID, d.Value.Failure)}
	}
	return "", false, nil
}

// prepareDisk makes what a new machine starts with, on its root volume unless it has none, and returns the base image
// that its disk lies over. That stays the same as long as the machine lives, since what was written over one layer
// cannot lie over another.
func (c *Controller) prepareDisk(ctx context.Context, id string, image Image, root string) (
	baseImage string, err error) {
	dir := c.machineDir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if baseImage, err = c.baseImageOf(dir, image); err != nil {
		return "", err
	}
	for d, mode := range map[string]fs.FileMode{launch.RunDir: 0o755, launch.RootVolumeDir: 0o700} {
		if err := os.MkdirAll(filepath.Join(dir, d), mode); err != nil {
			return "", err
		}
	}
	fill := func(disk string) error { return c.makeDisk(ctx, dir, disk, baseImage, image) }
	if root == "" {
		err = fill(dir)
	} else {
		name := loopdevice.Name{Owner: c.o.Owner, Volume: root, InstanceID: id}
		err = rootvolume.Prepare(ctx, name, baseImage, filepath.Join(dir, launch.RootVolumeDir), fill)
	}
	if err != nil {
		return "", fmt.Errorf("make the disk of %s: %w", id, err)
	}
	return baseImage, nil
}

// makeDisk makes the directories of a new machine on its disk. Those that do not begin empty appear complete or not at
// all.
func (c *Controller) makeDisk(ctx context.Context, dir, disk, baseImage string, image Image) error {
	for _, d := range append([]string{"kubelet"}, launch.UpperDirs...) {
		if err := os.MkdirAll(filepath.Join(disk, d), 0o755); err != nil {
			return err
		}
	}
	log, containerd := filepath.Join(disk, "log"), filepath.Join(disk, containerdDir)
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		if err := copyTree(filepath.Join(baseImage, "var/log"), log); err != nil {
			return err
		}
	}
	if _, err := os.Stat(containerd); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var golden string
	if image.Containerd != nil {
		var err error
		if golden, err = image.Containerd(ctx); err != nil {
			return err
		}
	}
	return copyContainerd(golden, containerd, filepath.Join(dir, layersDir))
}

// baseImageOf returns the base image of the machine in dir. It creates the image when no machine has needed it yet.
func (c *Controller) baseImageOf(dir string, image Image) (string, error) {
	c.baseImages.Lock()
	defer c.baseImages.Unlock()
	own := filepath.Join(dir, baseImageLink)
	if baseImage, err := os.Readlink(own); err == nil {
		// Those of versions before the node image lie over the host's /usr, which machines no longer see.
		if _, err := os.Stat(filepath.Join(baseImage, "usr/bin/sh")); err == nil {
			return baseImage, nil
		}
	}
	baseImage := filepath.Join(c.o.Dir, baseImagesDir, image.Name)
	if _, err := os.Stat(baseImage); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(baseImage), 0o700); err != nil {
			return "", err
		}
		if err := image.Write(baseImage); err != nil {
			return "", err
		}
	}
	return baseImage, replaceSymlink(baseImage, own)
}

// collectGarbage removes the base images that no machine uses: those that earlier versions of this program have
// written.
func (c *Controller) collectGarbage() error {
	c.baseImages.Lock()
	defer c.baseImages.Unlock()
	links, err := filepath.Glob(filepath.Join(c.o.Dir, "i-*", baseImageLink))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, l := range links {
		if baseImage, err := os.Readlink(l); err == nil {
			used[baseImage] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(c.o.Dir, baseImagesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if path := filepath.Join(c.o.Dir, baseImagesDir, e.Name()); !used[path] {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// replaceSymlink makes name a symbolic link to target, at once.
func replaceSymlink(target, name string) error {
	if now, err := os.Readlink(name); err == nil && now == target {
		return nil
	}
	next := name + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// launchSpec returns the spec of the machine for launch.
func (c *Controller) launchSpec(ctx context.Context, i record.Instance, kind size, baseImage string,
	programs []rootfs.Mount, root string) (launch.Spec, error) {
	dir := c.machineDir(i.ID)
	disk := launch.DiskDir(dir, root)
	hostname, err := c.hostname(ctx, i)
	if err != nil {
		return launch.Spec{}, err
	}
	mounts := []launch.Mount{
		{Source: filepath.Join(disk, containerdDir), Target: "/var/lib/containerd"},
		{Source: filepath.Join(disk, "kubelet"), Target: "/var/lib/kubelet"},
		{Source: filepath.Join(disk, "log"), Target: "/var/log"},
	}
	if layers := filepath.Join(dir, layersDir); fileExists(layers) {
		mounts = append(mounts, launch.Mount{Source: layers, Target: rootfs.Layers, ReadOnly: true})
	}
	for _, m := range programs {
		mounts = append(mounts, launch.Mount{Source: m.Source, Target: m.Target, ReadOnly: true})
	}
	user, err := c.o.Network.UserID(i.ID)
	if err != nil {
		return launch.Spec{}, err
	}
	hardware := kind.hardware
	hardware.InstanceID, hardware.InstanceType, hardware.MachineID = i.ID, kind.name, launch.MachineID(i.ID)
	return launch.Spec{
		InstanceID: i.ID, Owner: c.o.Owner, Boot: i.Boot, Dir: dir, RootVolume: root, BaseImage: baseImage, Mounts: mounts,
		Network: c.o.Network.Namespace(i.ID), UserID: user, Hostname: hostname,
		Size: kind.limits, Hardware: hardware,
		Init: []string{rootfs.Init, "init"},
		// The pod fails with its machine, and its owner replaces it.
		Once: i.Fargate != nil,
	}, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hostname returns the instance's private DNS name: "ip-10-0-0-4.eu-west-1.compute.internal", or one made from its ID.
func (c *Controller) hostname(ctx context.Context, i record.Instance) (string, error) {
	eni, err := c.primary(ctx, i)
	if err != nil {
		return "", err
	}
	return PrivateDNSName(i, eni.PrivateIPs[0]), nil
}

// PrivateDNSName returns the private DNS name of an instance, given its primary address.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-naming.html
func PrivateDNSName(i record.Instance, address string) string {
	domain := i.Region + ".compute.internal"
	if i.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	if i.HostnameType == "resource-name" {
		return i.ID + "." + domain
	}
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// primary returns the network interface that is an instance's eth0.
func (c *Controller) primary(ctx context.Context, i record.Instance) (record.NetworkInterface, error) {
	all, err := record.InterfacesByInstance(c.o.Store).List(ctx, i.Key())
	if err != nil {
		return record.NetworkInterface{}, err
	}
	at := slices.IndexFunc(all, func(r interfaceRow) bool {
		a := r.Value.Attachment
		return a.DeviceIndex == 0 && a.NetworkCardIndex == 0 && len(r.Value.PrivateIPs) > 0
	})
	if at < 0 {
		return record.NetworkInterface{}, fmt.Errorf("instance %s has no primary network interface", i.ID)
	}
	return all[at].Value, nil
}

// writeDHCPLease writes what the VPC's DHCP server would tell the machine.
func (c *Controller) writeDHCPLease(ctx context.Context, i record.Instance) error {
	vpc, err := record.VPCs(c.o.Store).Get(ctx, record.EC2Key(i.Account, i.Region, i.VPCID))
	if err != nil {
		return fmt.Errorf("the VPC of %s: %w", i.ID, err)
	}
	var options map[string][]string
	if id := vpc.Value.DHCPOptionsID; id != "" && id != "default" {
		row, err := record.DHCPOptionsTable(c.o.Store).Get(ctx, record.EC2Key(i.Account, i.Region, id))
		if err != nil {
			return fmt.Errorf("the DHCP options of %s: %w", i.VPCID, err)
		}
		options = row.Value.Options
	}
	return writeLease(filepath.Join(c.machineDir(i.ID), launch.LeaseFile), leaseOf(vpc.Value, options))
}

// writeFargate writes what the guest of a Fargate machine is to do, and the token for which its root gets credentials.
func (c *Controller) writeFargate(i record.Instance) error {
	if i.Fargate == nil {
		return nil
	}
	token, err := c.o.FargateToken(i)
	if err != nil {
		return fmt.Errorf("the token of %s: %w", i.ID, err)
	}
	dir := c.machineDir(i.ID)
	if err := durable.EnsureFile(filepath.Join(dir, launch.FargateFile), i.Fargate.NodeConfig, 0o600); err != nil {
		return err
	}
	return durable.EnsureFile(filepath.Join(dir, launch.FargateTokenFile), []byte(token), 0o600)
}
