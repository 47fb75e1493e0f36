// Package scene has the data from which a picture is drawn. These are the time span on the screen with its threads,
// figures and findings, the selection, and the layout of the screen. Views read the scene, and a Host changes it.
package scene
