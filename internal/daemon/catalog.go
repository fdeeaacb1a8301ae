package daemon

import "github.com/coracle-eks/coracle/internal/catalog"

// openCatalog opens what is known about add-ons: EKS's, and the user's own.
func (d *daemon) openCatalog() (*catalog.Catalog, error) {
	return catalog.Open(catalog.Options{Dir: d.dir.Addons(), Data: d.host.components.Data, Log: d.log})
}
