package daemon

import "github.com/coracle-eks/coracle/internal/controller/resourceusage"

// newResourceUsage returns the controller that samples what this host has and what is spent of it.
func (d *daemon) newResourceUsage() *resourceusage.Controller {
	o := resourceusage.Options{Store: d.store, Account: d.settings.Account, Points: d.points, Processes: d.processes,
		Dir: string(d.dir), Volumes: d.dir.VolumesDir(), Log: d.log}
	if d.host.real != nil {
		o.Machine, o.Disks = d.measureMachine, d.diskActivities
	}
	return resourceusage.New(o)
}
