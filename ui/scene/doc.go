// Package scene has the data from which a picture is drawn. It has the shown time span with its threads, figures and
// findings, the selection, and the layout of the screen. Views read the scene, and a Host changes it.
package scene
