//go:build !linux

package daemon

import (
	"context"
	"errors"
	"net/netip"

	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/controller/resourceusage"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/host/endpoint"
	"github.com/coracle-eks/coracle/internal/host/preflight"
	"github.com/coracle-eks/coracle/internal/reconcile"
)

// errNoMachines prevents the start of a daemon that is configured for machines.
var errNoMachines = errors.New("machines need Linux: run with --machines simulated")

// realHost is nil: machines are simulated.
type realHost struct{}

func choosePublicRange(context.Context, datadir.Dir) (netip.Prefix, error) {
	return netip.Prefix{}, errNoMachines
}

// machineProblems returns nothing: a daemon that is to have machines does not start.
func machineProblems(datadir.Dir) []preflight.Problem { return nil }

func (d *daemon) openRealHost(*host, endpoint.Options) error { return errNoMachines }

func (d *daemon) volumeContents() backup.Contents { return noContents{} }

func (d *daemon) measureMachine(string, int) (resourceusage.Machine, error) {
	return resourceusage.Machine{}, errNoMachines
}

func (d *daemon) diskActivities() (map[string]map[string]resourceusage.DiskActivity, error) {
	return nil, errNoMachines
}

func (d *daemon) realControllers() []reconcile.Controller { return nil }
