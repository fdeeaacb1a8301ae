package efsmount

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/host/machine/nfs"
)

// Exit statuses of mount(8).
const (
	exitUsage  = 1
	exitFailed = 32
)

// lookupTime bounds how long names, regions and credentials are looked for.
const lookupTime = 30 * time.Second

// Options are about who runs mount.efs.
type Options struct {
	// Credentials returns the credentials of mounts with the option iam, where volumes may not choose them: on Fargate.
	// Nil: they are looked for as amazon-efs-utils does.
	Credentials func(context.Context) (aws.Credentials, error)
}

// Main runs mount.efs, and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int { return Run(Options{}, args, stdout, stderr) }

// Run is [Main] with options.
func Run(o Options, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "-V") {
		fmt.Fprintln(stdout, "mount.efs of Coracle, with the options of amazon-efs-utils")
		return 0
	}
	r, err := parse(args)
	if err == nil && o.Credentials != nil {
		err = r.checkFargate()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	home, _ := os.UserHomeDir() // without one there are no files
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	m := mounter{imds: &imds.Client{}, lookup: net.DefaultResolver.LookupHost, mount: unix.Mount}
	err = m.run(ctx, r, source{env: os.Getenv, home: home, imds: m.imds, client: http.DefaultClient, fixed: o.Credentials})
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, err)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return 0
}

// mounter has what mount.efs needs of the machine.
type mounter struct {
	imds   *imds.Client
	lookup func(ctx context.Context, host string) ([]string, error)
	mount  func(source, target, kind string, flags uintptr, data string) error
}

func (m mounter) run(ctx context.Context, r request, s source) error {
	region, err := m.region(ctx, r)
	if err != nil {
		return err
	}
	s.region = region
	host := r.dnsName(region)
	address := r.options["mounttargetip"]
	if address == "" {
		found, err := m.lookup(ctx, host)
		if err != nil || len(found) == 0 {
			return fmt.Errorf("Failed to resolve %q - check that your file system ID is correct, and ensure that the VPC has "+
				"an EFS mount target for this file system ID.\nSee https://docs.aws.amazon.com/console/efs/mount-dns-name "+
				"for more detail.", host) //nolint:revive,staticcheck // amazon-efs-utils says it like that
		}
		address = found[0]
	} else if net.ParseIP(address) == nil {
		return wrong("mounttargetip %s is no IP address", address)
	}
	words := append([]string{"addr=" + address}, r.passed()...)
	if _, ok := r.options["tls"]; ok {
		words = append(words, nfs.OptionTLS)
	}
	if point := r.options["accesspoint"]; point != "" {
		words = append(words, nfs.OptionAccessPoint+"="+point)
	}
	if _, ok := r.options["iam"]; ok {
		c, err := s.credentials(ctx, r.options)
		if err != nil {
			return err
		}
		query, err := sign(ctx, c, region, r.fileSystem, time.Now())
		if err != nil {
			return err
		}
		words = append(words, nfs.OptionConnect+"="+base64.RawURLEncoding.EncodeToString([]byte(query)))
	}
	from, data := host+":"+path.Clean("/"+r.path), strings.Join(words, ",")
	if err := nfs.Check(nfs.TypeEFS, from, data); err != nil {
		return usageError{"mount.efs: " + err.Error()}
	}
	if len(data) >= os.Getpagesize() {
		return fmt.Errorf("mount.efs: the options take %d bytes, more than the kernel takes", len(data))
	}
	if r.fake {
		return nil
	}
	return explain(m.mount(from, r.mountpoint, nfs.TypeEFS, r.mountFlags(), data), from, r.mountpoint)
}

// region returns the region of the file system.
func (m mounter) region(ctx context.Context, r request) (string, error) {
	if region := r.options["region"]; region != "" {
		return region, nil
	}
	if named := fileSystemDNS.FindStringSubmatch(r.host); named != nil {
		return named[3], nil
	}
	document, err := m.imds.Identity(ctx)
	if err != nil {
		return "", fmt.Errorf("Error retrieving region. Please set the \"region\" mount option: %w", err)
	}
	return document.Region, nil
}

// explain returns the error of mount(2) in the words of mount.nfs4, with what to look at.
func explain(err error, source, mountpoint string) error {
	var why string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EACCES):
		why = "access denied by server while mounting " + source +
			": see the console output of the instance, the file system policy, and the access point"
	case errors.Is(err, unix.ETIMEDOUT):
		why = "Connection timed out: check that the security groups of the mount target allow TCP 2049 from this instance"
	case errors.Is(err, unix.ECONNREFUSED):
		why = "Connection refused: the mount target is not available"
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EPERM):
		why = "this machine cannot mount EFS file systems, or is not allowed to: see \"Mounting\" in docs/efs.md of Coracle"
	case errors.Is(err, unix.ENOENT):
		why = "mounting " + source + " failed, reason given by server: No such file or directory"
	default:
		why = err.Error()
	}
	return fmt.Errorf("mount.efs: mount %s on %s: %s", source, mountpoint, why)
}
