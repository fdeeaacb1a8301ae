//go:build linux

package efscsi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
)

// deleteRoot deletes the root directory of an access point, in the file system, which it mounts for that. The root of
// the file system is not deleted: others have it.
func (c *controller) deleteRoot(ctx context.Context, a account, v volume, point types.AccessPointDescription) (
	err error) {
	if point.RootDirectory == nil || strings.Trim(aws.ToString(point.RootDirectory.Path), "/") == "" {
		return nil
	}
	options := []string{"tls", "iam"}
	switch {
	case a.other && a.named:
		options = append(options, attributeCrossAccount)
	case a.other:
		addresses, err := mountTargets(ctx, a, v.fileSystem)
		if err != nil {
			return err
		}
		options = append(options, attributeAddress+"="+pickAddress(addresses, c.zone))
	}
	at := filepath.Join(c.options.mountDir, v.accessPoint)
	if err := c.mounter.MakeDir(at); err != nil {
		return err
	}
	// Another attempt may have left it.
	mounted, err := c.mounter.IsMounted(at)
	if err != nil {
		return err
	}
	if !mounted {
		if err := c.mounter.Mount(v.fileSystem+":/", at, mountType, options); err != nil {
			return errors.Join(fmt.Errorf("Could not mount %q at %q: %w", v.fileSystem, at, err), os.Remove(at))
		}
	}
	return errors.Join(removeDirectory(at, aws.ToString(point.RootDirectory.Path)), c.mounter.Unmount(at))
}

// removeDirectory removes a directory below root. No part of its path may be a symbolic link, which other users of the
// file system may make at any moment, as none may be of the root directory of an access point.
func removeDirectory(root, path string) error {
	at, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { at.Close() }()
	names := strings.Split(strings.Trim(filepath.Clean("/"+path), "/"), "/")
	for i, name := range names {
		info, err := at.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("/%s is no directory", strings.Join(names[:i+1], "/"))
		case i == len(names)-1:
			return at.RemoveAll(name) // of a link that has come in its place, it removes the link
		}
		below, err := openSame(at, name, info)
		if err != nil {
			return err
		}
		at.Close()
		at = below
	}
	return nil
}

// openSame opens an entry of a directory, which still has to be the directory that it was.
func openSame(at *os.Root, name string, was fs.FileInfo) (*os.Root, error) {
	below, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	is, err := below.Stat(".")
	if err == nil && !os.SameFile(was, is) {
		err = fmt.Errorf("%s has been replaced meanwhile", name)
	}
	if err != nil {
		below.Close()
		return nil, err
	}
	return below, nil
}
