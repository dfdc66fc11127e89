// Command older imports what does not compile. It has no guard.
package main

import "github.com/auth19/idem/core/idemvet/testdata/partly/old"

func main() { old.Save() }
