package daemon

import (
	"github.com/coracle-eks/coracle/internal/controller/addon"
	"github.com/coracle-eks/coracle/internal/controller/controlplane"
	"github.com/coracle-eks/coracle/internal/record"
)

// addonTimeout is the environment variable for the time that the pods of an add-on may take to become ready; 15m
// without it.
const addonTimeout = "CORACLE_ADDON_TIMEOUT"

// newAddonController returns the controller of add-ons: of those that a new cluster gets, and of those that users
// create.
func (d *daemon) newAddonController(planes *controlplane.Controller) (*addon.Controller, error) {
	timeout, err := durationFrom(addonTimeout)
	if err != nil {
		return nil, err
	}
	o := addon.Options{Store: d.store, Config: d.clusterConfig(planes), Catalog: d.catalog, Timeout: timeout,
		Log:      d.log,
		Standard: func(o record.AddonObject) bool { return controlplane.IsStandard(o.APIVersion, o.Kind, o.Name) }}
	if d.host.real != nil { // simulated machines run no images
		o.Provide = d.host.images.Provide
	}
	return addon.New(o), nil
}
