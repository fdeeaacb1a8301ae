package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// createFiles makes the benchmarks' program create files in a directory and stat those of another one, which a second
// process creates meanwhile. It prints the nanoseconds that both took.
const createFiles = "create-files"

// filesEach is how many files each of two processes creates.
const filesEach = 5000

func runCreateFiles(own, other string) error {
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	start := time.Now()
	for i := range filesEach {
		f, err := os.Create(filepath.Join(own, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	created := time.Since(start)
	if err := eventually.Try(time.Millisecond, func() error {
		_, err := os.Stat(filepath.Join(other, strconv.Itoa(filesEach-1)))
		return err
	}); err != nil {
		return err
	}
	start = time.Now()
	for i := range filesEach {
		if _, err := os.Stat(filepath.Join(other, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	fmt.Println(int64(created + time.Since(start)))
	return nil
}

// both runs two processes, which work in directories of the same file system, and returns how long the slower one took.
func both(b *testing.B, run func(process int, own, other string) (string, error)) time.Duration {
	b.Helper()
	type result struct {
		out string
		err error
	}
	results := make(chan result, 2)
	for i := range 2 {
		go func() {
			out, err := run(i, strconv.Itoa(i), strconv.Itoa(1-i))
			results <- result{out, err}
		}()
	}
	var slowest time.Duration
	for range 2 {
		r := <-results
		took, err := strconv.ParseInt(strings.TrimSpace(r.out), 10, 64)
		if err = errors.Join(r.err, err); err != nil {
			b.Fatal(err)
		}
		slowest = max(slowest, time.Duration(took))
	}
	return slowest
}

// BenchmarkFileSystems times how long two machines take to create 10,000 files of an EFS file system and to stat those
// of each other, beside two processes of the host on the same disk.
func BenchmarkFileSystems(b *testing.B) {
	d := harness.Start(b)
	files, machines := efs.NewFromConfig(d.Config()), ec2.NewFromConfig(d.Config())
	subnet := d.Subnets()[0]
	made, err := files.CreateFileSystem(b.Context(), &efs.CreateFileSystemInput{CreationToken: aws.String("bench")})
	if err != nil {
		b.Fatal(err)
	}
	id := *made.FileSystemId
	until := func(what string, try func() error) {
		b.Helper()
		if err := eventually.Try(50*time.Millisecond, try); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
	}
	until("there is a mount target", func() error {
		_, err := files.CreateMountTarget(b.Context(), &efs.CreateMountTargetInput{FileSystemId: &id, SubnetId: &subnet})
		var there *types.MountTargetConflict
		if errors.As(err, &there) {
			return nil
		}
		return err
	})
	point, err := files.CreateAccessPoint(b.Context(), &efs.CreateAccessPointInput{FileSystemId: &id,
		ClientToken: aws.String("bench"), PosixUser: &types.PosixUser{Uid: aws.Int64(1000), Gid: aws.Int64(1000)},
		RootDirectory: &types.RootDirectory{Path: aws.String("/point"), CreationInfo: &types.CreationInfo{
			OwnerUid: aws.Int64(1000), OwnerGid: aws.Int64(1000), Permissions: aws.String("0755")}}})
	if err != nil {
		b.Fatal(err)
	}
	image := strings.TrimSpace(d.Run("", "aws", "ssm", "get-parameter", "--query", "Parameter.Value", "--output", "text",
		"--name", "/aws/service/eks/optimized-ami/"+version+"/amazon-linux-2023/x86_64/standard/recommended/image_id"))
	run, err := machines.RunInstances(b.Context(), &ec2.RunInstancesInput{ImageId: &image, SubnetId: &subnet,
		InstanceType: ec2types.InstanceTypeM5Large, MinCount: aws.Int32(2), MaxCount: aws.Int32(2)})
	if err != nil {
		b.Fatal(err)
	}
	inside := func(machine int, script string) (string, error) {
		out, text, err := d.Try("", "coracle", "exec", "--data-dir", d.Dir, *run.Instances[machine].InstanceId, "--",
			"/bin/sh", "-c", script)
		if err != nil {
			err = fmt.Errorf("%w: %s%s", err, out, text)
		}
		return out, err
	}
	for i := range 2 {
		until("it is mounted", func() error {
			_, err := inside(i, "mountpoint -q /efs || { mkdir -p /efs /point && mount -t efs "+id+":/ /efs && "+
				"mount -t efs -o tls,accesspoint="+*point.AccessPointId+" "+id+":/ /point; }")
			return err
		})
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		b.Fatal(err)
	}
	root := filepath.Join(d.Dir, "filesystems", id, "root")
	if err := os.WriteFile(filepath.Join(root, "program"), program, 0o755); err != nil {
		b.Fatal(err)
	}
	of := func(at string) func(int, string, string) (string, error) {
		return func(machine int, own, other string) (string, error) {
			return inside(machine, fmt.Sprintf("/efs/program %s %s/%s %s/%s", createFiles, at, own, at, other))
		}
	}
	host, err := os.MkdirTemp(d.Dir, "bench-")
	if err != nil {
		b.Fatal(err)
	}
	bare := both(b, func(_ int, own, other string) (string, error) {
		out, err := exec.Command(self, createFiles, filepath.Join(host, own), filepath.Join(host, other)).Output()
		return string(out), err
	})
	mounted, by := both(b, of("/efs")), both(b, of("/point"))
	b.ReportMetric(mounted.Seconds(), "s/10000-files")
	report(row{"EFS: two machines create 10,000 files and stat each other's", seconds(mounted), "1.20 times",
		fmt.Sprintf("the host's file system: %s, %.2f times; by an access point with a user: %s, %.2f times",
			seconds(bare), mounted.Seconds()/bare.Seconds(), seconds(by), by.Seconds()/bare.Seconds())})
}
