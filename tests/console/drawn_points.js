// Four ways to draw moving points on a canvas of the page's size. Each draws squares or discs of four pixels.
(() => {
  const SIZE = 4;

  function cloud(many, width, height) {
    const made = { x: new Float32Array(many), y: new Float32Array(many), dx: new Float32Array(many), dy: new Float32Array(many), shade: new Uint8Array(many) };
    let seed = 1;
    const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    for (let i = 0; i < many; i++) {
      made.x[i] = random() * width;
      made.y[i] = random() * height;
      made.dx[i] = random() * 4 - 2;
      made.dy[i] = random() * 4 - 2;
      made.shade[i] = Math.floor(random() * 8);
    }
    return made;
  }

  function move(points, width, height) {
    for (let i = 0; i < points.x.length; i++) {
      points.x[i] += points.dx[i];
      points.y[i] += points.dy[i];
      if (points.x[i] < 0 || points.x[i] > width) points.dx[i] *= -1;
      if (points.y[i] < 0 || points.y[i] > height) points.dy[i] *= -1;
    }
  }

  const COLOURS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
  // little endian: alpha, blue, green, red
  const WORDS = COLOURS.map((hex) => (255 << 24) | (parseInt(hex.slice(5, 7), 16) << 16) | (parseInt(hex.slice(3, 5), 16) << 8) | parseInt(hex.slice(1, 3), 16));

  function byShade(context, points, draw) {
    const { width, height } = context.canvas;
    context.clearRect(0, 0, width, height);
    for (let shade = 0; shade < 8; shade++) {
      context.fillStyle = COLOURS[shade];
      context.beginPath();
      for (let i = 0; i < points.x.length; i++) if (points.shade[i] === shade) draw(points.x[i], points.y[i]);
      context.fill();
    }
  }

  const WAYS = {
    arcs(canvas, size) {
      const context = canvas.getContext("2d");
      return (points) => byShade(context, points, (x, y) => {
        context.moveTo(x + size / 2, y);
        context.arc(x, y, size / 2, 0, 2 * Math.PI);
      });
    },
    rectangles(canvas, size) {
      const context = canvas.getContext("2d");
      return (points) => byShade(context, points, (x, y) => context.rect(x - size / 2, y - size / 2, size, size));
    },
    pixels(canvas, size) {
      const context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      const words = new Uint32Array(image.data.buffer);
      const [width, height] = [canvas.width, canvas.height];
      return (points) => {
        words.fill(0);
        for (let i = 0; i < points.x.length; i++) {
          const [x, y, word] = [Math.round(points.x[i]), Math.round(points.y[i]), WORDS[points.shade[i]]];
          if (x < size || y < size || x >= width - size || y >= height - size) continue;
          for (let k = 0; k < size; k++) {
            const row = (y + k) * width + x;
            words.fill(word, row, row + size);
          }
        }
        context.putImageData(image, 0, 0);
      };
    },
    webgl(canvas, size) {
      const gl = canvas.getContext("webgl2", { antialias: false });
      const compile = (kind, text) => {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, text);
        gl.compileShader(shader);
        return shader;
      };
      const program = gl.createProgram();
      gl.attachShader(program, compile(gl.VERTEX_SHADER, `#version 300 es
        in vec2 place; in float shade; uniform vec2 size; uniform float dot; out vec3 colour;
        void main() {
          gl_Position = vec4(place / size * vec2(2, -2) + vec2(-1, 1), 0, 1);
          gl_PointSize = dot;
          colour = vec3(shade / 8.0, 0.5, 1.0 - shade / 8.0);
        }`));
      gl.attachShader(program, compile(gl.FRAGMENT_SHADER, `#version 300 es
        precision mediump float; in vec3 colour; out vec4 ink;
        void main() { if (length(gl_PointCoord - 0.5) > 0.5) discard; ink = vec4(colour, 1); }`));
      gl.linkProgram(program);
      gl.useProgram(program);
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.uniform2f(gl.getUniformLocation(program, "size"), canvas.width, canvas.height);
      gl.uniform1f(gl.getUniformLocation(program, "dot"), size);
      const bind = (name, parts, type) => {
        const buffer = gl.createBuffer();
        const at = gl.getAttribLocation(program, name);
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.enableVertexAttribArray(at);
        gl.vertexAttribPointer(at, parts, type, false, 0, 0);
        return buffer;
      };
      const [places, shades] = [bind("place", 2, gl.FLOAT), bind("shade", 1, gl.UNSIGNED_BYTE)];
      let flat = new Float32Array(0);
      return (points) => {
        const many = points.x.length;
        if (flat.length !== 2 * many) {
          flat = new Float32Array(2 * many);
          gl.bindBuffer(gl.ARRAY_BUFFER, shades);
          gl.bufferData(gl.ARRAY_BUFFER, points.shade, gl.STATIC_DRAW);
        }
        for (let i = 0; i < many; i++) {
          flat[2 * i] = points.x[i];
          flat[2 * i + 1] = points.y[i];
        }
        gl.clear(gl.COLOR_BUFFER_BIT);
        gl.bindBuffer(gl.ARRAY_BUFFER, places);
        gl.bufferData(gl.ARRAY_BUFFER, flat, gl.DYNAMIC_DRAW);
        gl.drawArrays(gl.POINTS, 0, many);
        // the frame is drawn elsewhere; wait for it, or the queue grows
        gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
      };
    },
  };

  window.graphics = () => {
    const gl = document.createElement("canvas").getContext("webgl2");
    const more = gl?.getExtension("WEBGL_debug_renderer_info");
    return gl ? gl.getParameter(more ? more.UNMASKED_RENDERER_WEBGL : gl.RENDERER) : "no WebGL";
  };

  /** Draw for some milliseconds; returns frames per second, and milliseconds of script per frame. */
  window.measure = (way, many, duration) =>
    new Promise((resolve) => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [innerWidth * devicePixelRatio, innerHeight * devicePixelRatio];
      document.body.replaceChildren(canvas);
      const points = cloud(many, canvas.width, canvas.height);
      const draw = WAYS[way](canvas, SIZE * devicePixelRatio);
      draw(points);
      let [began, frames, spent] = [0, 0, 0];
      requestAnimationFrame(function next(now) {
        if (began === 0) began = now;
        else frames++;
        if (now - began > duration) return resolve({ frames: (1000 * frames) / (now - began), ms: spent / Math.max(1, frames) });
        const before = performance.now();
        move(points, canvas.width, canvas.height);
        draw(points);
        spent += performance.now() - before;
        requestAnimationFrame(next);
      });
    });
})();
