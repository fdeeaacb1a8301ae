package catalog

import "testing"

// A controller renders on every look at an add-on.
func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"vpc-cni", "coredns"} {
		b.Run(name, func(b *testing.B) {
			a, _ := open(b).Addon(name)
			v, _ := a.Default("1.35")
			for b.Loop() {
				if _, err := v.Render(exampleOptions("1.35")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
