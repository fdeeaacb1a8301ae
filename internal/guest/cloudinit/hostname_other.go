//go:build !linux

package cloudinit

import "errors"

func setKernelHostname(string) error { return errors.New("machines need Linux") }
