// Package nodeimage makes the root file system that all machines have below their own: about 150 Debian packages, most
// of them dependencies, without what only a person at the machine would read, in one archive.
//
// resolve.go finds the packages that the wanted ones depend on; mirror.go downloads them from a mirror of Debian and
// verifies them; tree.go merges their files into one tree; build.go puts these steps together and checks that each
// library is there; archive.go writes, reads and unpacks the archive and its manifest.
//
// Nothing of a package runs while the image is made, and no root rights are needed: what maintainer scripts would do
// that matters here is in tables of package node. The packages are those that package node names, with their
// checksums. Debian's mirrors drop the versions that a later point release replaces; then the newer version is taken,
// whose checksum the signed index of the mirror says, and the manifest of the image tells so. The same packages give
// the same archive, byte by byte.
package nodeimage
