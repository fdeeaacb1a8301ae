//go:build linux

package chaos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/crash"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/host/loopdevice"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/testenv"
	"github.com/coracle-eks/coracle/test/harness"
)

// TestTheDaemonMayDieInTheLifeOfAnInstance lets the daemon die at every marked instruction in the life of real
// machines: when they are launched, stopped, started, rebooted and terminated. Each time another daemon finds them as
// they are and goes on: user data runs once, addresses stay where they are and are given to one only, and in the end
// there is nothing left.
func TestTheDaemonMayDieInTheLifeOfAnInstance(t *testing.T) {
	crash.Require(t)
	t.Parallel()
	testenv.NeedsRoot(t)
	d := harness.Start(t)
	f := &fleet{phoenix: &phoenix{Daemon: d, t: t}, client: ec2.NewFromConfig(d.Config())}
	image, err := ssm.NewFromConfig(d.Config()).GetParameter(t.Context(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	if err != nil {
		t.Fatal(err)
	}
	subnet := d.Subnets()[0]
	boot := []string{"machine/prepared", "process/before-fork", "process/after-fork", "machine/launched"}
	off := []string{"process/stopping", "machine/stopped"}
	run := func(token string, count int32) {
		f.do("run instances", func(ctx context.Context) error {
			out, err := f.client.RunInstances(ctx, &ec2.RunInstancesInput{
				ImageId: image.Parameter.Value, InstanceType: ec2types.InstanceTypeM5Large, MinCount: &count,
				MaxCount: &count, SubnetId: &subnet, ClientToken: &token,
				UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\necho ran >> /root/ran\n"))),
			})
			if err == nil {
				f.ids = nil
				for _, i := range out.Instances {
					f.ids = append(f.ids, *i.InstanceId)
				}
			}
			return err
		}, func(error) bool { return false })
		f.awaitRunning()
	}
	terminate := func() {
		f.change("terminate", func(ctx context.Context) error {
			_, err := f.client.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: f.ids})
			return err
		})
		f.await(ec2types.InstanceStateNameTerminated)
	}
	var made, attached, released []string // of root volumes
	if preflight.CheckRootVolumes() == nil {
		made, released = []string{"volume/made"}, []string{"volume/released"}
		attached = []string{"volume/looped", "volume/attached", "rootvolume/formatted", "rootvolume/filled"}
		// Where the daemon may die elsewhere, all volumes may be claimed while it does.
		f.arm("volume/claimed")
		run("claimed", 1)
		f.died(t)
		terminate()
	}

	f.arm(slices.Concat([]string{"network/router", "network/port", "network/rules"}, boot, made, attached)...)
	run("mortal", 2)
	addresses := f.addresses()
	f.died(t)

	f.arm(append(released, off...)...)
	f.change("stop", func(ctx context.Context) error {
		_, err := f.client.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: f.ids})
		return err
	})
	f.await(ec2types.InstanceStateNameStopped)
	f.machines(0)
	f.died(t)

	f.arm(slices.Concat(attached, boot)...)
	f.change("start", func(ctx context.Context) error {
		_, err := f.client.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: f.ids})
		return err
	})
	f.awaitRunning()
	f.died(t)

	boots := f.inside("cat", "/proc/sys/kernel/random/boot_id")
	f.arm(boot...)
	f.change("reboot", func(ctx context.Context) error {
		_, err := f.client.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: f.ids})
		return err
	})
	f.eventually("both have rebooted", func() error {
		for i, now := range f.tryInside("cat", "/proc/sys/kernel/random/boot_id") {
			if now == "" || now == boots[i] {
				return fmt.Errorf("%s has the boot %q", f.ids[i], now)
			}
		}
		return nil
	})
	f.awaitRunning()
	f.died(t)
	if now := f.addresses(); now != addresses {
		t.Errorf("the instances have %s and had %s", now, addresses)
	}

	f.arm(append(off, "machine/discarding", "machine/hidden")...)
	terminate()
	f.died(t)
	f.machines(0)
	f.nothingLeft()
}

// fleet is some instances of a daemon that dies again and again.
type fleet struct {
	*phoenix
	client *ec2.Client
	ids    []string
}

// arm starts the daemon again, to die at each of the points.
func (f *fleet) arm(points ...string) {
	f.t.Helper()
	f.Kill()
	f.points = slices.Clone(points)
	f.start()
}

// died demands that the daemon has been to all points that it was armed with.
func (f *fleet) died(t *testing.T) {
	t.Helper()
	f.eventually("the daemon dies", func() error {
		if len(f.points) > 0 {
			return fmt.Errorf("it did not come to %v", f.points)
		}
		return nil
	})
}

// change asks for something that may be asked again.
func (f *fleet) change(what string, call func(context.Context) error) {
	f.t.Helper()
	f.do(what, call, func(err error) bool {
		var api smithy.APIError
		return errors.As(err, &api) && api.ErrorCode() == "IncorrectInstanceState"
	})
}

func (f *fleet) eventually(what string, try func() error) {
	f.t.Helper()
	err := eventually.Try(50*time.Millisecond, func() error {
		f.revive()
		return try()
	})
	if err != nil {
		f.t.Fatalf("%s: %v", what, err)
	}
}

// describe returns the instances, in the order of their IDs.
func (f *fleet) describe() ([]ec2types.Instance, error) {
	out, err := f.client.DescribeInstances(f.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: f.ids})
	if err != nil {
		return nil, err
	}
	var found []ec2types.Instance
	for _, r := range out.Reservations {
		found = append(found, r.Instances...)
	}
	slices.SortFunc(found, func(a, b ec2types.Instance) int { return strings.Compare(*a.InstanceId, *b.InstanceId) })
	if len(found) != len(f.ids) {
		return nil, fmt.Errorf("there are %d instances, and %d were launched", len(found), len(f.ids))
	}
	return found, nil
}

func (f *fleet) await(state ec2types.InstanceStateName) {
	f.t.Helper()
	f.eventually("the instances are "+string(state), func() error {
		found, err := f.describe()
		if err != nil {
			return err
		}
		for _, i := range found {
			if i.State.Name != state {
				return fmt.Errorf("%s is %s: %s", *i.InstanceId, i.State.Name, harness.Text(i.StateReason))
			}
		}
		return nil
	})
}

// awaitRunning waits until the instances run with their addresses, and have run their user data, once.
func (f *fleet) awaitRunning() {
	f.t.Helper()
	f.await(ec2types.InstanceStateNameRunning)
	f.eventually("user data has run", func() error {
		for i, text := range f.tryInside("sh", "-c", "cat /root/ran; hostname -I") {
			if !strings.HasPrefix(text, "ran\n") {
				return fmt.Errorf("in %s: %q", f.ids[i], text)
			}
		}
		return nil
	})
	found, err := f.describe()
	if err != nil {
		f.t.Fatal(err)
	}
	inside := f.inside("sh", "-c", "cat /root/ran; hostname -I")
	for _, i := range found {
		want := "ran\n" + *i.PrivateIpAddress + " \n"
		if got := inside[slices.Index(f.ids, *i.InstanceId)]; got != want {
			f.t.Errorf("%s says %q, not %q", *i.InstanceId, got, want)
		}
	}
	f.machines(len(f.ids))
}

// tryInside returns the output of a command in each instance, empty where it fails.
func (f *fleet) tryInside(argv ...string) []string {
	var all []string
	for _, id := range f.ids {
		out, _, err := f.Try("", "coracle", append([]string{"exec", "--data-dir", f.Dir, id, "--"}, argv...)...)
		if err != nil {
			out = ""
		}
		all = append(all, out)
	}
	return all
}

// inside returns the output of a command that must succeed in each instance.
func (f *fleet) inside(argv ...string) (all []string) {
	f.t.Helper()
	f.eventually(strings.Join(argv, " "), func() error {
		if all = f.tryInside(argv...); slices.Contains(all, "") {
			return fmt.Errorf("it printed %q", all)
		}
		return nil
	})
	return all
}

// machines demands that so many machines run.
func (f *fleet) machines(want int) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d machines run", want), func() error {
		var running []string
		for _, p := range f.Processes() {
			if strings.Contains(p, " launch --spec ") {
				running = append(running, p)
			}
		}
		if len(running) != want {
			return fmt.Errorf("these run:\n%s", strings.Join(running, "\n"))
		}
		return nil
	})
}

// addresses returns the private addresses of the instances' network interfaces, each of which may exist only once.
func (f *fleet) addresses() string {
	f.t.Helper()
	var found []string
	f.eventually("the instances have addresses", func() error {
		out, err := f.client.DescribeNetworkInterfaces(f.t.Context(), &ec2.DescribeNetworkInterfacesInput{})
		if err != nil {
			return err
		}
		found = nil
		for _, eni := range out.NetworkInterfaces {
			if eni.Attachment == nil || eni.Attachment.InstanceId == nil ||
				!slices.Contains(f.ids, *eni.Attachment.InstanceId) {
				return eventually.Never(fmt.Errorf("%s belongs to no instance: %s", *eni.NetworkInterfaceId,
					harness.Text(eni.Attachment)))
			}
			for _, a := range eni.PrivateIpAddresses {
				found = append(found, *a.PrivateIpAddress+" "+*eni.Attachment.InstanceId)
			}
		}
		return nil
	})
	slices.Sort(found)
	if len(found) != len(f.ids) || strings.Fields(found[0])[0] == strings.Fields(found[len(found)-1])[0] {
		f.t.Errorf("%d instances have the addresses %q", len(f.ids), found)
	}
	return strings.Join(found, ", ")
}

// nothingLeft demands that nothing is left of the instances but their names.
func (f *fleet) nothingLeft() {
	f.t.Helper()
	f.eventually("everything is given back", func() error {
		var left []string
		for _, pattern := range []string{
			filepath.Join(f.Dir, "machines", "i-*"), filepath.Join(f.Dir, "volumes", "vol-*"),
			filepath.Join("/run/coracle", f.Owner(), "netns", "i-*"),
			filepath.Join("/sys/fs/cgroup/*/coracle", f.Owner(), "i-*"),
			filepath.Join("/sys/fs/cgroup/coracle", f.Owner(), "i-*"),
		} {
			found, _ := filepath.Glob(pattern) // the patterns are right
			left = append(left, found...)
		}
		devices, err := loopdevice.List(f.Owner())
		if err != nil {
			return err
		}
		for _, d := range devices {
			left = append(left, d.Name.String())
		}
		interfaces, err := f.client.DescribeNetworkInterfaces(f.t.Context(), &ec2.DescribeNetworkInterfacesInput{})
		if err != nil {
			return err
		}
		for _, eni := range interfaces.NetworkInterfaces {
			left = append(left, *eni.NetworkInterfaceId)
		}
		volumes, err := f.client.DescribeVolumes(f.t.Context(), &ec2.DescribeVolumesInput{})
		if err != nil {
			return err
		}
		for _, v := range volumes.Volumes {
			left = append(left, *v.VolumeId)
		}
		if len(left) > 0 {
			return fmt.Errorf("there are still %v", left)
		}
		return nil
	})
}
