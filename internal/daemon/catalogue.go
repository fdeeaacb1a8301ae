package daemon

import "github.com/coracle-eks/coracle/internal/catalogue"

// openCatalogue opens what is known about add-ons: EKS's, and the user's own.
func (d *daemon) openCatalogue() (*catalogue.Catalogue, error) {
	return catalogue.Open(catalogue.Options{Dir: d.dir.Addons(), Data: d.host.components.Data, Log: d.log})
}
